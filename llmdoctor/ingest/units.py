"""SQL for one value: from the unit in which a log has it to the canonical one."""

NUMERIC = {"number": "double", "ms": "double", "s": "double", "us": "double", "ns": "double", "int": "bigint"}
NUMERIC |= {"epoch_s": "double", "epoch_ms": "double", "epoch_us": "double", "epoch_ns": "bigint"}
NUMERIC |= {"bool": "boolean", "iso": "timestamptz"}

# A format with a zone field gives an instant, one without is read in the session's zone; so one list per sort.
_ZONED = "['%d/%b/%Y:%H:%M:%S %z', '%Y-%m-%dT%H:%M:%S.%f%z', '%a, %d %b %Y %H:%M:%S %Z']"
_NAIVE = "['%Y%m%dT%H%M%SZ', '%Y/%m/%d %H:%M:%S', '%d/%b/%Y:%H:%M:%S', '%d/%b/%Y:%H:%M:%S.%f', '%Y/%m/%d - %H:%M:%S']"


def typed(value: str, unit: str, parsed: bool) -> str:
    """`value` in the canonical unit: milliseconds, an instant, or as it is. `parsed`: it is no text any more."""
    if unit == "text":
        return value
    if unit == "duration":
        return _duration(value)
    if unit == "ticks":
        # 100 ns since the year 1; 621355968000000000 of them lie before 1970.
        return _epoch(f"(try_cast({value} as hugeint) - 621355968000000000) / 10.0", 10**6)
    if unit in ("time", "yearless"):
        number = f"try_cast({value} as double)"
        return (
            f"coalesce(try_cast(replace({value}, ',', '.') as timestamptz), {_epoch(number, None)}, "
            f"try_strptime({value}, {_ZONED}), cast(try_strptime({value}, {_NAIVE}) as timestamptz))"
        )
    number = value if parsed else f"try_cast({value} as {NUMERIC[unit]})"
    if unit.startswith("epoch_"):
        # As a double, nanoseconds would be off by up to 128, and then by a microsecond.
        exact = f"to_timestamp(0) + to_microseconds(case when {number} >= 0 then {number} // 1000 end)"
        divisor = {"epoch_s": 1, "epoch_ms": 10**3, "epoch_us": 10**6}.get(unit)
        return _epoch(number, divisor) if divisor else exact
    factor = {"s": "* 1000", "us": "/ 1000", "ns": "/ 1000000"}.get(unit)
    return f"round({number} {factor}, 6)" if factor else number


def _duration(value: str) -> str:
    """`1m2.3s`, `24.5ms`, `412.1µs`, as Go and Rust print them, in milliseconds; null where it is no such text."""
    units = (("h", 3_600_000.0), ("m", 60_000.0), ("s", 1_000.0), ("ms", 1.0), ("us|µs|μs", 0.001), ("ns", 0.000001))
    parts = [
        f"coalesce(try_cast(nullif(regexp_extract({value}, '([0-9.]+)(?:{names})(?:[0-9]|$)', 1), '') as double), 0)"
        f" * {factor}"
        for names, factor in units
    ]
    fits = f"regexp_full_match({value}, '([0-9]+(\\.[0-9]+)?(h|ms|m|s|us|µs|μs|ns))+')"
    return f"case when {fits} then round({' + '.join(parts)}, 6) end"


def _epoch(number: str, divisor: int | None) -> str:
    """Seconds since 1970 as an instant; without a divisor the magnitude decides (years 1973 to 5138 are told apart)."""
    if divisor is None:
        seconds = (
            f"case when {number} between 1e8 and 1e11 then {number} when {number} between 1e11 and 1e14 "
            f"then {number} / 1e3 when {number} between 1e14 and 1e17 then {number} / 1e6 "
            # .NET ticks of the years 1965 to 2060; as nanoseconds since 1970 they would lie in 1990.
            f"when {number} between 6.2e17 and 6.5e17 then ({number} - 621355968e9) / 1e7 "
            f"when {number} between 1e17 and 1e20 then {number} / 1e9 end"
        )
        return f"to_timestamp({seconds})"
    return f"to_timestamp(case when {number} between 0 and 1e11 * {divisor} then {number} / {divisor} end)"
