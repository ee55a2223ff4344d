"""The environments that come with the bundle, one module or package each."""
