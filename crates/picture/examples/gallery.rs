//! Writes pictures of every kind, as SVG and as PNG, into the folder given as argument.

use std::error::Error;
use std::path::Path;

use glidepath_picture::{
    Axis, Cell, Chart, Hatch, HatchLegend, HeatMap, LineChart, LineStyle, NamedBar, NamedBars, Panels, Point, Rule,
    RuleAxis, Scale, Series, StackedBars, png,
};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: gallery FOLDER")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let pictures = [
        ("success", Chart::HeatMap(success())),
        ("latency-map", Chart::HeatMap(latency_map())),
        ("wide-map", Chart::HeatMap(wide_map())),
        ("latency", Chart::LineChart(latency())),
        ("providers", Chart::LineChart(providers())),
        ("ten-series", Chart::LineChart(ten_series())),
        ("over-time", Chart::LineChart(over_time())),
        ("conflicts", Chart::StackedBars(conflicts())),
        ("costs", Chart::StackedBars(costs())),
        ("protocols", Chart::NamedBars(protocols())),
        ("panels", Chart::Panels(panels())),
        ("mixed-panels", Chart::Panels(mixed_panels())),
        ("degenerate", Chart::Panels(degenerate())),
    ];
    for (name, chart) in pictures {
        let svg = chart.svg()?;
        std::fs::write(folder.join(format!("{name}.png")), png(&svg, 1.5)?)?;
        std::fs::write(folder.join(format!("{name}.svg")), svg)?;
    }
    Ok(())
}

const TABLES: [f64; 6] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
const ARRIVALS: [f64; 10] = [20.0, 50.0, 100.0, 200.0, 300.0, 500.0, 1000.0, 2000.0, 3000.0, 5000.0];

fn names(values: &[f64]) -> Vec<String> {
    values.iter().map(f64::to_string).collect()
}

/// Share of commits that succeed, in per cent, when `tables` get one every `arrival` ms.
fn success_rate(arrival: f64, tables: f64) -> f64 {
    let load = 900.0 / (arrival * tables.powf(0.75));
    100.0 / (1.0 + (load / 2.5).powi(2))
}

fn marked(success: f64) -> Hatch {
    match success {
        s if s < 80.0 => Hatch::Dense,
        s if s < 95.0 => Hatch::Light,
        _ => Hatch::None,
    }
}

fn grid(cell: impl Fn(f64, f64) -> Option<Cell>) -> Vec<Vec<Option<Cell>>> {
    let row = |tables: &f64| ARRIVALS.iter().map(|a| cell(*a, *tables)).collect();
    TABLES.iter().map(row).collect()
}

fn success() -> HeatMap {
    HeatMap {
        title: "Commit success rate by load and number of tables".into(),
        subtitle: Some("S3 conditional writes, 4 writers, 3 retries, 30 min simulated".into()),
        x_label: "Mean time between commits (ms)".into(),
        y_label: "Tables".into(),
        x_ticks: names(&ARRIVALS),
        y_ticks: names(&TABLES),
        cells: grid(|arrival, tables| {
            let value = success_rate(arrival, tables);
            Some(Cell { value, text: format!("{value:.1}"), hatch: Hatch::None })
        }),
        scale: Scale { label: "Successful commits (%)".into(), low: 0.0, high: 100.0, ..Scale::default() },
        hatch_legend: None,
    }
}

fn latency_map() -> HeatMap {
    let cell = |arrival: f64, tables: f64| {
        let success = success_rate(arrival, tables);
        let value = 0.085 + 60.0 / (arrival * tables.powf(0.6)) * (1.0 + tables / 40.0);
        let text = if value < 1.0 { format!("{:.0} ms", value * 1000.0) } else { format!("{value:.1} s") };
        let hatch = marked(success);
        (success > 1.0).then_some(Cell { value, text, hatch })
    };
    HeatMap {
        title: "Mean commit latency by load and number of tables".into(),
        subtitle: Some(
            "GCS generation match, 8 writers, exponential back-off. Latency counts successful \
             commits only, from the first attempt to the acknowledgement of the last one."
                .into(),
        ),
        x_label: "Mean time between commits (ms)".into(),
        y_label: "Tables".into(),
        x_ticks: names(&ARRIVALS),
        y_ticks: names(&TABLES),
        cells: grid(cell),
        scale: Scale { label: "Mean latency (s)".into(), low: 0.08, high: 4.0, logarithmic: true, reversed: true },
        hatch_legend: Some(HatchLegend { light: "success below 95 %".into(), dense: "success below 80 %".into() }),
    }
}

fn wide_map() -> HeatMap {
    let cells = (0..20).map(|row| {
        let cell = |column: i32| Cell {
            value: f64::from(row * column + 1),
            text: format!("{}", row * column + 1),
            hatch: match (row - column).abs() {
                0 => Hatch::Dense,
                1 => Hatch::Light,
                _ => Hatch::None,
            },
        };
        (0..20).map(|column| Some(cell(column))).collect()
    });
    HeatMap {
        title: "Twenty by twenty with <long> names & \"quotes\"".into(),
        x_label: "Writer".into(),
        y_label: "Region".into(),
        x_ticks: (1..=20).map(|i| format!("writer-group-{i}")).collect(),
        y_ticks: (1..=20).map(|i| format!("region-{i}")).collect(),
        cells: cells.collect(),
        scale: Scale { label: "Conflicts (1/min)".into(), low: 1.0, high: 400.0, logarithmic: true, reversed: false },
        hatch_legend: Some(HatchLegend { light: "near the diagonal".into(), dense: "on the diagonal".into() }),
        ..HeatMap::default()
    }
}

fn axis(label: &str, logarithmic: bool) -> Axis {
    Axis { label: label.into(), logarithmic, range: None, ticks: None }
}

fn latency() -> LineChart {
    let curve = |name: &str, factor: f64, line: LineStyle, noted: bool| Series {
        name: name.into(),
        points: [2.0, 5.0, 8.0, 11.0, 13.5, 15.0, 15.6]
            .into_iter()
            .map(|rate: f64| {
                let y = factor * 70.0 / (1.0 - rate / 17.0);
                let success = 100.0 - (rate / 15.6_f64).powi(6) * 22.0;
                Point {
                    x: rate,
                    y,
                    spread: Some((y * 0.9, y * (1.05 + rate / 60.0))),
                    note: noted.then(|| format!("{success:.1} %")),
                }
            })
            .collect(),
        marks: true,
        line,
        ..Series::default()
    };
    LineChart {
        title: "Commit latency against throughput".into(),
        subtitle: Some("Numbers beside P99: share of commits that succeed".into()),
        x: axis("Throughput (commits/s)", false),
        y: axis("Commit latency (ms)", true),
        series: vec![
            curve("P50", 1.0, LineStyle::Solid, false),
            curve("P95", 2.1, LineStyle::Dashed, false),
            curve("P99", 3.6, LineStyle::Dotted, true),
        ],
        rules: vec![
            Rule { at: 1000.0, axis: RuleAxis::Y, label: "target: 1 s".into() },
            Rule { at: 14.2, axis: RuleAxis::X, label: "usable throughput".into() },
        ],
    }
}

fn providers() -> LineChart {
    let curve = |name: &str, base: f64, power: f64, dashed: bool| Series {
        name: name.into(),
        points: TABLES.iter().map(|tables| Point::at(*tables, base * tables.powf(power))).collect(),
        marks: true,
        line: if dashed { LineStyle::Dashed } else { LineStyle::Solid },
        ..Series::default()
    };
    LineChart {
        title: "Usable throughput against number of tables".into(),
        subtitle: Some("Greatest rate with 95 % success and P95 below 2 s".into()),
        x: axis("Tables", true),
        y: axis("Usable throughput (commits/s)", true),
        series: vec![
            curve("S3 Standard", 4.1, 0.92, false),
            curve("S3 Express One Zone", 18.0, 0.95, false),
            curve("Azure Premium", 9.0, 0.9, false),
            curve("GCS", 1.1, 0.55, false),
            curve("Catalogue server (RDS)", 70.0, 0.25, true),
        ],
        rules: Vec::new(),
    }
}

fn ten_series() -> LineChart {
    let series = (0..10).map(|index| {
        let shift = f64::from(index);
        let point = |x: i32| {
            let x = f64::from(x);
            let note = (x == 6.0).then(|| format!("s{index}: {:.1}", shift * 2.0));
            Point { note, ..Point::at(x, 10.0 + shift * 2.0 + (x / 2.0 + shift).sin() * 6.0) }
        };
        Series {
            name: format!("Configuration {index}: {index} retries"),
            points: (0..=12).map(point).collect(),
            marks: true,
            ..Series::default()
        }
    });
    LineChart {
        title: "Ten series whose title is long enough that it must be broken into two lines, \
                because it goes on and on about <everything> & \"more\""
            .into(),
        x: axis("Elapsed time (h)", false),
        y: axis("Rate (1/s)", false),
        series: series.collect(),
        ..LineChart::default()
    }
}

fn over_time() -> LineChart {
    let curve = |name: &str, base: f64, dip: f64| Series {
        name: name.into(),
        points: (0..60)
            .map(|minute| {
                let x = f64::from(minute);
                let outage = (30..36).contains(&minute);
                let wave = (x * 1.7).sin() * 1.2 + (x * 0.37).cos() * 0.8;
                Point::at(x, (base + wave) * if outage { dip } else { 1.0 })
            })
            .collect(),
        step: true,
        ..Series::default()
    };
    LineChart {
        title: "Commit rate over time".into(),
        subtitle: Some("Means over one minute".into()),
        x: axis("Simulated time (min)", false),
        y: axis("Commits per second", false),
        series: vec![curve("offered", 14.0, 1.0), curve("committed", 12.5, 0.3)],
        rules: vec![Rule { at: 30.0, axis: RuleAxis::X, label: "throttling starts".into() }],
    }
}

fn conflicts() -> StackedBars {
    let zipf = |rank: i32, scale: f64, power: f64| scale / f64::from(rank + 1).powf(power);
    let part = |name: &str, scale: f64, power: f64| {
        let heights = (0..50).map(|rank| zipf(rank, scale, power)).collect();
        (name.to_owned(), heights)
    };
    StackedBars {
        title: "Conflicts by table, most written table first".into(),
        subtitle: Some("Table choice: Zipf 0.9 over 50 tables".into()),
        x_label: "Rank of the table".into(),
        y_label: "Conflicts per hour".into(),
        categories: (1..=50).map(|rank| rank.to_string()).collect(),
        parts: vec![
            part("manifest list (retried)", 420.0, 0.8),
            part("same partition", 260.0, 1.1),
            part("schema change", 60.0, 0.7),
            part("gave up", 90.0, 1.4),
        ],
    }
}

fn costs() -> StackedBars {
    let providers = [
        "Amazon S3 Standard",
        "Amazon S3 Express One Zone",
        "Azure Blob Storage Premium",
        "Google Cloud Storage",
        "MinIO on premises",
        "Cloudflare R2",
        "Ceph",
    ];
    let part = |name: &str, scale: f64| {
        let heights = (0..7_i32).map(|i| scale * (1.0 + f64::from(i * 7 % 5)));
        (name.to_owned(), heights.collect())
    };
    StackedBars {
        title: "Requests of one commit by provider".into(),
        x_label: "Provider".into(),
        y_label: "Requests".into(),
        categories: providers.map(String::from).into(),
        parts: vec![part("GET", 4.0), part("PUT", 3.0), part("LIST", 0.7)],
        ..StackedBars::default()
    }
}

fn panels() -> Panels {
    let titled = |title: &str, chart: LineChart| Chart::LineChart(LineChart { title: title.into(), ..chart });
    Panels {
        title: "One experiment, four views".into(),
        columns: 2,
        one_legend: false,
        width: None,
        charts: vec![
            titled("Latency against throughput", latency()),
            titled("Scaling with tables", providers()),
            titled("Commit rate over time", over_time()),
            titled("Ten configurations", ten_series()),
        ],
    }
}

fn mixed_panels() -> Panels {
    Panels {
        title: "A map, bars and a line".into(),
        columns: 2,
        one_legend: false,
        width: None,
        charts: vec![Chart::HeatMap(latency_map()), Chart::StackedBars(conflicts()), Chart::LineChart(over_time())],
    }
}

fn protocols() -> NamedBars {
    let bar = |name: &str, value: f64, interval| NamedBar {
        name: name.into(),
        value: Some(value),
        interval,
        note: format!("{value}"),
        ..NamedBar::default()
    };
    NamedBars {
        title: "Commits per second, by protocol".into(),
        subtitle: Some("made up".into()),
        x_label: "Commits/s".into(),
        bars: vec![
            bar("one object", 8.6, Some([8.3, 8.8])),
            bar("tickets on Cassandra in three zones (assumed)", 96.6, Some([90.0, 103.0])),
            NamedBar { at_least: true, note: "\u{2265} 46".into(), ..bar("manifest chain", 46.0, None) },
            NamedBar { name: "append log".into(), note: "no load holds".into(), ..NamedBar::default() },
        ],
    }
}

fn degenerate() -> Panels {
    let line = |title: &str, points: Vec<Point>, logarithmic: bool| {
        Chart::LineChart(LineChart {
            title: title.into(),
            x: axis("x (s)", logarithmic),
            y: axis("y (1/s)", logarithmic),
            series: vec![Series { name: "series".into(), points, ..Series::default() }],
            ..LineChart::default()
        })
    };
    let equal = |y: f64| (0..5).map(|x| Point::at(f64::from(x), y)).collect();
    let far = vec![Point::at(1e-7, 1e12), Point::at(1e9, 1e-9)];
    let narrow = vec![Point::at(1e6, 12.01), Point::at(1_000_040.0, 12.02)];
    let one_cell = HeatMap {
        title: "One cell".into(),
        x_label: "x".into(),
        y_label: "y".into(),
        x_ticks: vec!["a".into()],
        y_ticks: vec!["b".into()],
        cells: vec![vec![Some(Cell {
            value: 1.0,
            text: "a text that is too long for one cell".into(),
            hatch: Hatch::Dense,
        })]],
        scale: Scale { label: "value".into(), ..Scale::default() },
        ..HeatMap::default()
    };
    Panels {
        title: "Degenerate data".into(),
        columns: 3,
        one_legend: false,
        width: None,
        charts: vec![
            line("No points", vec![], false),
            line("One point", vec![Point::at(3.0, 4.0)], true),
            line("All equal", equal(5.0), false),
            line("All zero", equal(0.0), false),
            line("Far apart", far, true),
            line("Close together", narrow, false),
            line("NaN only", vec![Point::at(f64::NAN, 1.0)], true),
            Chart::HeatMap(one_cell),
            Chart::StackedBars(StackedBars { title: "No bars".into(), ..StackedBars::default() }),
            Chart::NamedBars(NamedBars { title: "No names".into(), ..NamedBars::default() }),
        ],
    }
}
