"""What can go wrong, as one tree. Only `cli.py` prints these and turns them into exit codes.

    LlmdoctorError            a message of one line: what, where, what to do next
    |-- UsageError            the command line or a settings file is wrong                       exit 2
    |-- PageError             a rule or format page is wrong; names file, line and key           exit 2
    |-- InputError            nothing could be read: no such path, no usable row                 exit 3
    |-- StoreError            the database refused a statement that we or a user wrote           exit 2
    `-- InterruptError        the user pressed Ctrl-C; says how far the work got                 exit 130

What is wrong with the *data* is never an exception: it becomes a value that the report shows.
"""


class LlmdoctorError(Exception):
    """Base of all errors a user may see. `str(error)` is one line."""

    exit_code = 2


class UsageError(LlmdoctorError):
    """An option, a filter or a settings file cannot be used as given."""


class PageError(LlmdoctorError):
    """A rule or format page breaks its contract."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")
        self.path, self.line, self.problem = path, line, problem


class InputError(LlmdoctorError):
    """No input could be used."""

    exit_code = 3


class StoreError(LlmdoctorError):
    """DuckDB refused a statement; the message is DuckDB's first line and what was being done."""


class InterruptError(LlmdoctorError):
    """The user ended the work; the message says how far it got and what was written."""

    exit_code = 130
