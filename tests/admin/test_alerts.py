#!/usr/bin/env python3
"""The alert rules (ADM-07): promtool plays the series of each case, and each alert fires and ends."""
import re
import shutil
import subprocess
from pathlib import Path

from holdfast_test import tap

FOLDER = Path(__file__).parents[2] / "packaging/prometheus"
STEP = re.compile(r'alertname="(\w+)",alertstate="firing".*value: (\d)')


def promtool(*arguments):
    if not shutil.which("promtool"):
        raise tap.Skip("promtool is not installed")
    done = subprocess.run(["promtool", *arguments], cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


@tap.test
def the_rules_are_valid():
    """promtool check rules."""
    status, said = promtool("check", "rules", "holdfast.rules.yml")
    assert status == 0, said


@tap.test
def each_alert_fires_and_ends():
    """Given the series of its case: promtool test rules sees it fire, and not fire once the trouble is over."""
    status, said = promtool("test", "rules", "holdfast.test.yml")
    assert status == 0, said


@tap.test
def no_alert_is_without_a_test():
    """Given the rules, the test file makes each fire, and then end."""
    alerts = re.findall(r"- alert: (\w+)", (FOLDER / "holdfast.rules.yml").read_text())
    steps = STEP.findall((FOLDER / "holdfast.test.yml").read_text())
    assert len(alerts) > 10
    for alert in alerts:
        values = [value for name, value in steps if name == alert]
        assert "1" in values and "0" in values[values.index("1"):], f"{alert}: {values}"


@tap.test
def each_alert_leads_to_a_heading():
    """Given the rules, the runbook of each names a heading that is in the documents."""
    rules = (FOLDER / "holdfast.rules.yml").read_text()
    links = re.findall(r"^          runbook: (\S+)#(\S+)$", rules, re.M)
    assert len(links) == rules.count("- alert: ")
    for path, anchor in links:
        headings = re.findall(r"^#+ (.*)$", (FOLDER.parents[1] / path).read_text(), re.M)
        anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{path}#{anchor}"


@tap.test
def panels_show_rates_at_any_scrape_interval():
    """Given the dashboard, each rate is over $__rate_interval: a fixed minute is empty where Prometheus scrapes once a minute."""
    text = (FOLDER.parent / "grafana/holdfast.json").read_text()
    windows = set(re.findall(r"\[([^\[\]\"]+)\]", text))
    assert windows == {"$__rate_interval"}, windows


if __name__ == "__main__":
    tap.main()
