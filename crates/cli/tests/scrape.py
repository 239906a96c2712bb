"""Scrapes what metrics.json names, as Prometheus does, with the strict parser of Prometheus' own
client: scrape.py METRICS_JSON prints [[node, sample, labels, value], ...]."""

import json
import sys
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

samples = []
for group in json.load(open(sys.argv[1])):
    for target in group["targets"]:
        with urllib.request.urlopen(f"http://{target}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            assert family.documentation, family.name
            for sample in family.samples:
                samples.append([group["labels"]["node"], sample.name, sample.labels, sample.value])
json.dump(samples, sys.stdout)
