import json

from apps.setup.report import DoctorRow, SetupReport

OK = DoctorRow(name="browser", level="ok", actual="/usr/bin/chromium")
WARN = DoctorRow(
    name="window manager", level="warn", actual="none\nsecond line", expected="openbox", fix="apt-get install openbox"
)
FAIL = DoctorRow(name="disk", level="fail", actual="full")


def test_worst_row_decides_the_exit_code() -> None:
    assert (SetupReport(rows=()).worst, SetupReport(rows=()).exit_code) == ("ok", 0)
    assert (SetupReport(rows=(WARN, OK)).worst, SetupReport(rows=(WARN, OK)).exit_code) == ("warn", 0)
    assert (SetupReport(rows=(OK, FAIL, WARN)).worst, SetupReport(rows=(OK, FAIL, WARN)).exit_code) == ("fail", 1)


def test_text() -> None:
    assert SetupReport(rows=(OK, WARN, FAIL)).to_text().splitlines() == [
        "ok    browser         /usr/bin/chromium",
        "warn  window manager  none",
        "                      second line",
        "                      expected: openbox",
        "                      fix it:  apt-get install openbox",
        "FAIL  disk            full",
    ]


def test_json() -> None:
    assert json.loads(SetupReport(rows=(FAIL,)).to_json()) == {
        "worst": "fail",
        "rows": [{"name": "disk", "level": "fail", "found": "full", "expected": "", "fix": ""}],
    }
