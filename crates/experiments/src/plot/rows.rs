//! Any JSON as a chart: one field of its rows over another.

use nacre_object::{Error, Result};
use serde_json::Value;

use super::chart::Chart;
use super::units::plain;
use super::{Axis, Form, draw};
use crate::report::{Point, Series, Spread};

/// Which fields of a row are drawn. A field inside another is written with points:
/// `latency.seconds_p99`.
#[derive(Debug, Clone)]
pub struct Fields {
    /// Where the rows are: a field that holds an array. Without it each document is a row.
    pub rows: Option<String>,
    /// The field for the x axis: numbers make lines, text makes bars.
    pub x: String,
    /// The field with the numbers for the y axis.
    pub y: String,
    /// The field whose values each get a line or a colour.
    pub by: Option<String>,
    /// Whether the axes of a line plot are logarithmic.
    pub is_logarithmic: bool,
}

/// Draws rows of JSON documents, such as the lines that a command writes with `--json`. For rows
/// with the same x in the same series it draws the median, with whiskers from the smallest to the
/// largest value.
///
/// # Errors
/// `Invalid` if a field is missing, or if a value is not a number where one is needed, or is below
/// 0.
pub fn plot_rows(title: &str, documents: &[Value], fields: &Fields) -> Result<String> {
    let rows = rows_of(documents, fields)?;
    let names = names_of(&rows, &fields.x)?;
    let mut drawn = Vec::<(String, f64, f64)>::new();
    for row in &rows {
        let x = match (field(row, &fields.x)?, &names) {
            (x, Some(names)) => position_of(&text_of(x), names) as f64,
            (x, None) => number(x, &fields.x)?,
        };
        let series = match &fields.by {
            Some(by) => text_of(field(row, by)?),
            None => fields.y.clone(),
        };
        drawn.push((series, x, number(field(row, &fields.y)?, &fields.y)?));
    }
    let (form, series) = match &names {
        Some(names) => (Form::Bars, series_of(&drawn, Some(names.len()))),
        None if fields.is_logarithmic => (Form::Lines(Axis::Log), series_of(&drawn, None)),
        None => (Form::Lines(Axis::Linear), series_of(&drawn, None)),
    };
    let shown: Box<dyn Fn(f64) -> String> = match names {
        Some(names) => Box::new(move |at| names[at as usize].clone()),
        None => Box::new(plain),
    };
    let chart = Chart::new(title.to_owned(), (&fields.x, &fields.y), &series, false, shown)?;
    draw(&chart, form)
}

fn rows_of<'a>(documents: &'a [Value], fields: &Fields) -> Result<Vec<&'a Value>> {
    let Some(place) = &fields.rows else {
        return Ok(documents.iter().collect());
    };
    let mut rows = vec![];
    for document in documents {
        let Value::Array(found) = field(document, place)? else {
            return Err(Error::invalid(format!("`{place}` is not an array of rows")));
        };
        rows.extend(found);
    }
    Ok(rows)
}

/// The values of x in the order of their first rows; `None` if they are numbers.
fn names_of(rows: &[&Value], x: &str) -> Result<Option<Vec<String>>> {
    let mut names: Vec<String> = vec![];
    let mut is_text = false;
    for row in rows {
        let value = field(row, x)?;
        is_text |= !value.is_number();
        let name = text_of(value);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(is_text.then_some(names))
}

fn position_of(name: &str, names: &[String]) -> usize {
    names.iter().position(|each| each == name).unwrap_or_default()
}

/// The points of each series, in ascending order of x. In a bar plot, each series has one point for
/// each of the `bars` names on the x axis.
fn series_of(drawn: &[(String, f64, f64)], bars: Option<usize>) -> Vec<Series> {
    let mut all: Vec<Series> = vec![];
    for (strategy, _, _) in drawn {
        if all.iter().any(|series| &series.strategy == strategy) {
            continue;
        }
        let of_it = || drawn.iter().filter(|(name, _, _)| name == strategy);
        let mut xs: Vec<f64> = match bars {
            Some(bars) => (0..bars).map(|at| at as f64).collect(),
            None => of_it().map(|(_, x, _)| *x).collect(),
        };
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let point = |x: f64| {
            let values = of_it().filter(|(_, at, _)| *at == x).map(|(_, _, y)| *y);
            point_of(x, values.collect())
        };
        let points = xs.into_iter().map(point).collect();
        let way = String::new();
        all.push(Series { strategy: strategy.clone(), way, layout: None, points });
    }
    all
}

fn point_of(x: f64, values: Vec<f64>) -> Point {
    let none = || Spread::of([]);
    Point {
        x,
        entries_per_second: Spread::exactly(values),
        latency_p50_micros: none(),
        latency_p99_micros: none(),
    }
}

/// A field of a row, or of an object inside it.
fn field<'a>(row: &'a Value, path: &str) -> Result<&'a Value> {
    let found = path.split('.').try_fold(row, |value, name| value.get(name));
    found.ok_or_else(|| {
        let names = match row {
            Value::Object(fields) => fields.keys().cloned().collect::<Vec<_>>().join(", "),
            _ => "none, as it is no object".to_owned(),
        };
        Error::invalid(format!("a row has no field `{path}`"))
            .hint(format!("name one of its fields: {names}"))
    })
}

fn number(value: &Value, name: &str) -> Result<f64> {
    match value.as_f64() {
        Some(number) if number >= 0.0 => Ok(number),
        Some(number) => Err(Error::invalid(format!("`{name}` is {number}, which is below 0"))),
        None => Err(Error::invalid(format!("`{name}` is {value}, which is not a number"))),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(x: &str, y: &str, by: Option<&str>) -> Fields {
        let by = by.map(str::to_owned);
        Fields { rows: None, x: x.to_owned(), y: y.to_owned(), by, is_logarithmic: false }
    }

    #[test]
    fn rows_with_numbers_are_drawn_as_lines_and_rows_with_text_as_bars() {
        let rows = [
            json!({ "at": 1, "rate": 10, "who": "a", "what": "get" }),
            json!({ "at": 2, "rate": 30.5, "who": "b", "what": "set" }),
        ];
        let lines = plot_rows("title", &rows, &fields("at", "rate", Some("who"))).unwrap();
        assert!(lines.contains("<circle") && lines.contains("title"), "{lines}");
        let bars = plot_rows("title", &rows, &fields("what", "rate", None)).unwrap();
        assert!(!bars.contains("<circle"), "{bars}");
        assert!(["get", "set"].iter().all(|name| bars.contains(name)), "{bars}");
    }

    #[test]
    fn a_plot_finds_rows_inside_a_document_and_fields_inside_a_row() {
        let report = json!({ "phases": [{ "what": "a", "latency": { "p99": 0.002 } }] });
        let mut wanted = fields("what", "latency.p99", None);
        wanted.rows = Some("phases".to_owned());
        assert!(plot_rows("title", std::slice::from_ref(&report), &wanted).is_ok());
        wanted.rows = Some("latency".to_owned());
        let error = plot_rows("title", &[report], &wanted).unwrap_err();
        assert_eq!(error.hint_text(), Some("name one of its fields: phases"));
    }

    #[test]
    fn rows_with_the_same_x_are_drawn_as_their_median() {
        let drawn: Vec<_> = [3.0, 1.0, 2.0].map(|y| ("s".to_owned(), 5.0, y)).into();
        let series = series_of(&drawn, None);
        let spread = &series[0].points[0].entries_per_second;
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 2.0, 3.0));
        assert_eq!(series[0].points.len(), 1);
    }

    #[test]
    fn a_row_that_cannot_be_drawn_gives_an_error_with_the_reason() {
        for (row, said) in [
            (json!({ "x": 1 }), "a row has no field `y`"),
            (json!({ "x": 1, "y": "much" }), "`y` is \"much\", which is not a number"),
            (json!({ "x": 1, "y": -2 }), "`y` is -2, which is below 0"),
            (json!(7), "a row has no field `x`"),
        ] {
            let error = plot_rows("title", &[row], &fields("x", "y", None)).unwrap_err();
            assert_eq!(error.message(), said);
        }
        let none = plot_rows("title", &[], &fields("x", "y", None)).unwrap_err();
        assert_eq!(none.message(), "there are no points to draw");
    }
}
