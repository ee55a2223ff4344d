#!/usr/bin/env bash
# Fails where a tracked file names a package registry's host or a developer's own path, or is a lock file that would:
# the tree must install from whatever index a machine is set up with.
set -uo pipefail

hosts='py[p]i\.(org|io)|python[h]osted|registry\.(n[p]mjs|y[a]rnpkg)|(deb|security|cdn-aws\.deb)\.debi[a]n\.'
paths='/w[o]rk/(main|shared|steering|\.library)|/f[a]rm/|/t[m]p/w/|/ro[o]t/\.|/ho[m]e/[a-z]+/'
locks=('*uv.lock' '*package-lock.json' '*poetry.lock' '*Pipfile.lock')

found=0
if git grep -nIE "$hosts|$paths" -- .; then found=1; fi
if git ls-files -- "${locks[@]}" | grep .; then found=1; fi
exit "$found"
