//! Measures a very short form of every figure on a real engine, with all its strategies and points,
//! and draws it.

use std::time::Duration;

use nacre_experiments::{Effort, Experiment, Report, Site, StoredReport, measure, plot};

/// What counts here is that everything is measured, not how long.
const EFFORT: Effort = Effort { span: Duration::from_millis(10), rounds: 2 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_figure_is_measured_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::embedded(folder.path()).unwrap();
    for experiment in Experiment::ALL {
        let mut shares = vec![];
        let progress = &mut |share| shares.push(share);
        let report = measure(experiment, &site, EFFORT, progress).await.unwrap();
        assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{shares:?}");
        everything_is_measured(experiment, &report);
        everything_is_drawn(&report);
        assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
    }
    assert_eq!(site.left().await.unwrap(), [], "objects are left");
}

fn everything_is_measured(experiment: Experiment, report: &Report) {
    let plan = experiment.plan();
    let measured = report.series.iter().map(|series| (series.strategy.as_str(), &series.way[..]));
    let planned = plan.strategies().iter().map(|one| (one.name, one.way.name()));
    assert!(measured.eq(planned), "{}", report.measurement.experiment);
    for series in &report.series {
        let xs: Vec<f64> = series.points.iter().map(|point| point.x).collect();
        assert_eq!(xs.len(), plan.points());
        assert!(xs.is_sorted_by(|a, b| a < b), "{xs:?}");
        for point in &series.points {
            let rate = &point.entries_per_second;
            let rounds = [&point.latency_p50_micros, &point.latency_p99_micros, rate];
            for spread in rounds {
                assert_eq!(spread.rounds.len(), EFFORT.rounds);
                assert!(spread.least > 0.0, "{}: {point:?}", series.strategy);
                assert!(spread.least <= spread.median && spread.median <= spread.most);
            }
        }
    }
}

fn everything_is_drawn(report: &Report) {
    let svg = plot(report).unwrap();
    let tags = tags_of(&svg);
    assert_eq!(tags.first().copied(), Some("svg"), "{}", report.measurement.experiment);
    for series in &report.series {
        assert!(svg.contains(&format!("\n{}\n", series.strategy)), "{}", series.strategy);
    }
    for text in [&report.x, "entries a second", &report.measurement.title, &report.engine.engine] {
        assert!(svg.contains(text), "{text} in {}", report.measurement.experiment);
    }
    // Each point has a whisker, and a dot if the plot has lines. The whisker and the dot have the
    // colour of the strategy.
    let marks = tags.iter().filter(|tag| ["circle", "rect", "polyline"].contains(tag)).count();
    let points: usize = report.series.iter().map(|series| series.points.len()).sum();
    assert!(marks >= 2 * points, "{marks} marks for {points} points");
}

/// The names of an SVG document's elements, in the order of their start tags. Fails if an element
/// is not closed.
fn tags_of(document: &str) -> Vec<&str> {
    let (mut all, mut open, mut rest) = (vec![], vec![], document);
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "elements end in turn");
            continue;
        }
        let name = tag.split([' ', '\n', '/']).next().unwrap_or("");
        assert_eq!(tag.matches('"').count() % 2, 0, "values are quoted: {tag}");
        all.push(name);
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} do not end");
    all
}
