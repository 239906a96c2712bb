//! Every simulated figure: it is computed, drawn, kept, and the same each time.

use nacre_experiments::{CephFsFigure, SimulatedFigure, SimulatedReport, StoredReport};

#[test]
fn every_figure_is_simulated_and_drawn() {
    for figure in SimulatedFigure::ALL {
        let report = figure.simulate().unwrap_or_else(|error| panic!("{}: {error}", figure.name()));
        assert!(report.is_simulated && !report.findings.is_empty(), "{}", figure.name());
        for finding in &report.findings {
            assert!(finding.simulated.is_finite(), "{finding:?}");
        }
        for chart in &report.charts {
            let svg = chart.plot("simulated").unwrap();
            assert!(svg.starts_with("<svg") && svg.contains("simulated"), "{}", chart.name);
        }
        assert_eq!(SimulatedReport::from_json(&report.to_json().unwrap()).unwrap(), report);
    }
}

#[test]
fn a_simulated_figure_is_the_same_each_time() {
    let simulate = || SimulatedFigure::CreateSpeedup.simulate().unwrap();
    assert_eq!(simulate(), simulate());
}

#[test]
fn a_figure_has_the_name_of_its_folder() {
    for figure in SimulatedFigure::ALL {
        assert_eq!(figure.name().parse::<SimulatedFigure>().unwrap(), figure);
    }
    assert!("mantle-11".parse::<SimulatedFigure>().is_err());
}

#[test]
fn a_figure_that_is_not_measured_on_cephfs_is_refused() {
    for figure in CephFsFigure::ALL {
        assert_eq!(CephFsFigure::of(figure.simulated()).unwrap(), figure);
    }
    assert!(CephFsFigure::of(SimulatedFigure::Modes).is_err());
}
