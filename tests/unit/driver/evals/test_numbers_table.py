"""Rows of numbers in flat arrays."""

from rollgym.driver.evals.numbers_table import MOST_FIELDS, NumbersTable


def test_columns_and_rows_come_back() -> None:
    table = NumbersTable()
    rows = [{"a": 1.0, "b": 2.0}, {}, {"b": 3.0}, {"c": 4.0, "a": 5.0}]
    for row in rows:
        table.append(row)
    assert [table.row(at) for at in range(len(table))] == rows
    assert {name: list(values) for name, values in table.columns().items()} == {"a": [1, 5], "b": [2, 3], "c": [4]}
    assert {name: list(values) for name, values in table.columns([2, 3]).items()} == {"a": [5], "b": [3], "c": [4]}
    assert list(table.column("b")) == [2, 3]
    assert list(table.column("none")) == []


def test_fields_past_the_first_thousand_are_left_out_by_name() -> None:
    table = NumbersTable()
    for number in range(MOST_FIELDS + 3):
        table.append({f"f{number}": 1.0, "f0": 2.0})
    assert len(table.columns()) == MOST_FIELDS
    assert table.left_out == {f"f{number}" for number in range(MOST_FIELDS, MOST_FIELDS + 3)}
