//! `nacre-bench plot FILE`: JSON that a command wrote, as SVG.

use std::fs;
use std::path::{Path, PathBuf};

use nacre_experiments::{Fields, Report, StoredReport, plot, plot_rows};
use nacre_object::{Error, Result};
use nacre_terminal::input::read_text;
use nacre_terminal::out::Out;
use serde_json::{Value, json};

/// What is drawn, and where the drawing goes.
#[derive(Debug, clap::Args)]
pub struct PlotArguments {
    /// A file with JSON documents; `-` is standard input. For the report of an experiment, or the
    /// output of `nacre-bench --json`, leave out --x and --y
    file: PathBuf,
    /// The field for the x axis: numbers are drawn as lines, strings as bars. Name an inner field
    /// with points, as in latency.seconds_p99
    #[arg(long, value_name = "FIELD", requires = "y")]
    x: Option<String>,
    /// The field with the numbers for the y axis
    #[arg(long, value_name = "FIELD", requires = "x")]
    y: Option<String>,
    /// Draw one line, or bars of one colour, for each value of this field
    #[arg(long, value_name = "FIELD", requires = "x")]
    by: Option<String>,
    /// The field with an array of rows (default: each document is a row)
    #[arg(long, value_name = "FIELD", requires = "x")]
    rows: Option<String>,
    /// The title (default: the file's name)
    #[arg(long, value_name = "TEXT", requires = "x")]
    title: Option<String>,
    /// Write the drawing to this file (default: FILE with the ending .svg; standard output if FILE
    /// is `-`)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Draws a file.
pub fn run(arguments: &PlotArguments, out: Out) -> Result<()> {
    let svg = drawn(arguments)?;
    let is_piped = arguments.file == Path::new("-");
    let place = match &arguments.out {
        Some(place) => place.clone(),
        None if is_piped => return out.bytes(svg.as_bytes()),
        None => arguments.file.with_extension("svg"),
    };
    fs::write(&place, svg).map_err(|error| {
        Error::unavailable(format!("cannot write {}: {error}", place.display()))
            .hint("name another file with --out")
    })?;
    out.show(&json!({ "plot": place }), || place.display().to_string())
}

fn drawn(arguments: &PlotArguments) -> Result<String> {
    let text = read_text(&arguments.file)?;
    let name = arguments.file.display();
    let documents = serde_json::Deserializer::from_str(&text)
        .into_iter::<Value>()
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|error| Error::invalid(format!("{name} is not JSON: {error}")))?;
    let title = arguments.title.clone().unwrap_or_else(|| name.to_string());
    if let (Some(x), Some(y)) = (&arguments.x, &arguments.y) {
        let (rows, by) = (arguments.rows.clone(), arguments.by.clone());
        return plot_rows(
            &title,
            &documents,
            &Fields { rows, x: x.clone(), y: y.clone(), by, is_logarithmic: false },
        );
    }
    let has = |document: &Value, fields: &[&str]| fields.iter().all(|f| document.get(f).is_some());
    match documents.first() {
        Some(first) if has(first, &["experiment", "series"]) => plot(&Report::from_json(&text)?),
        Some(first) if has(first, &["bench", "figure", "ratio"]) => {
            let (x, y) = ("figure".to_owned(), "ratio".to_owned());
            let by = Some("baseline_name".to_owned());
            let fields = Fields { rows: None, x, y, by, is_logarithmic: false };
            plot_rows(&title, &documents, &fields)
        }
        _ => Err(Error::invalid(format!(
            "{name} is not a report, and has no figures of nacre-bench"
        ))
        .hint("name the fields to draw: --x FIELD --y FIELD")),
    }
}
