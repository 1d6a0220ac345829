//! Which substrate sustains how many commits per second? Draws the bars of `docs/substrates.md`: the knees that
//! `knees` has found.
//!
//! ```sh
//! glidepath knees substrates --provider s3-standard --fast-append 0.9 --tables 50 --commit-within 30s --budget 600s \
//!   --json \
//!     > knees.json
//! cargo run --release -p glidepath-lab --example substrates_picture -- knees.json docs/images/substrates.svg
//! ```

use std::error::Error;

use glidepath_picture::{Chart, NamedBar, NamedBars, png};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args().skip(1);
    let (Some(from), Some(to)) = (paths.next(), paths.next()) else {
        return Err("usage: substrates_picture KNEES.json PICTURE.svg".into());
    };
    let knees: Value = serde_json::from_str(&std::fs::read_to_string(from)?)?;
    let points = knees["points"].as_array().ok_or("no points")?;
    let chart = Chart::NamedBars(NamedBars {
        title: "Commits per second, by where the catalog is".to_owned(),
        subtitle: Some("50 tables on S3 Standard, 90 % fast appends, simulated".to_owned()),
        x_label: "Commits/s at which 95 % of the validated overwrites land within 30 s".to_owned(),
        bars: points.iter().map(bar).collect::<Result<_, _>>()?,
    });
    let svg = chart.svg()?;
    std::fs::write(to.replace(".svg", ".png"), png(&svg, 1.5)?)?;
    std::fs::write(to, svg)?;
    Ok(())
}

fn bar(point: &Value) -> Result<NamedBar, Box<dyn Error>> {
    let name = point["coordinates"]["alternative"].as_str().ok_or("a point of no alternative")?;
    let knee = point["knee_commits_per_s"].as_f64().filter(|_| point["bound"] == "found");
    let knee = knee.ok_or_else(|| format!("{name}: no knee was found; give a larger --budget"))?;
    let end = |index: usize| point["knee_interval_commits_per_s"][index].as_f64();
    let interval = end(0).zip(end(1)).map(<[f64; 2]>::from);
    let decimals = if knee < 100.0 { 1 } else { 0 };
    Ok(NamedBar {
        name: name.to_owned(),
        value: Some(knee),
        interval,
        note: format!("{knee:.decimals$}"),
        at_least: false,
    })
}
