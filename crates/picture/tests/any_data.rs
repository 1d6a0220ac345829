//! Does any data give a picture that every reader of SVG and PNG can open?

use glidepath_picture::{
    Axis, Cell, Chart, Hatch, HatchLegend, HeatMap, LineChart, LineStyle, NamedBar, NamedBars, Panels, PictureError,
    Point, Rule, RuleAxis, Scale, Series, StackedBars, Swing, SwingEnd, Tornado, png,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Finite or not, tiny or huge, often equal or zero.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => any::<f64>(),
        4 => -1e3..1e3_f64,
        4 => 0.001..1e6_f64,
        1 => Just(0.0),
        1 => Just(7.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::MAX),
        1 => Just(f64::MIN_POSITIVE),
    ]
}

/// Ordinary words, markup, control characters, anything.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z <>&\"']{1,40}",
        any::<String>(),
        vec(any::<char>(), 0..6).prop_map(String::from_iter),
        Just("]]></text><script>alert(1)</script>\u{0}\u{b}\u{ffff}\r\n\t".to_owned()),
        Just("long words ".repeat(40)),
    ]
}

fn axis() -> impl Strategy<Value = Axis> {
    let ticks = option::weighted(0.3, vec(number(), 0..6));
    (words(), any::<bool>(), option::of((number(), number())), ticks)
        .prop_map(|(label, logarithmic, range, ticks)| Axis { label, logarithmic, range, ticks })
}

fn point() -> impl Strategy<Value = Point> {
    let spread = option::of((number(), number()));
    (number(), number(), spread, option::weighted(0.3, words())).prop_map(|(x, y, spread, note)| Point {
        x,
        y,
        spread,
        note,
    })
}

fn series() -> impl Strategy<Value = Series> {
    let line =
        prop_oneof![Just(LineStyle::Solid), Just(LineStyle::Dashed), Just(LineStyle::Dotted), Just(LineStyle::None)];
    (words(), vec(point(), 0..8), any::<bool>(), line, any::<bool>())
        .prop_map(|(name, points, marks, line, step)| Series { name, points, marks, line, step, slot: None })
}

fn rule() -> impl Strategy<Value = Rule> {
    let axis = prop_oneof![Just(RuleAxis::X), Just(RuleAxis::Y)];
    (number(), axis, words()).prop_map(|(at, axis, label)| Rule { at, axis, label })
}

fn line_chart() -> impl Strategy<Value = Chart> {
    (words(), option::of(words()), axis(), axis(), vec(series(), 0..5), vec(rule(), 0..3)).prop_map(
        |(title, subtitle, x, y, series, rules)| Chart::LineChart(LineChart { title, subtitle, x, y, series, rules }),
    )
}

fn cell() -> impl Strategy<Value = Cell> {
    let hatch = prop_oneof![Just(Hatch::None), Just(Hatch::Light), Just(Hatch::Dense)];
    (number(), words(), hatch).prop_map(|(value, text, hatch)| Cell { value, text, hatch })
}

fn scale() -> impl Strategy<Value = Scale> {
    (words(), number(), number(), any::<bool>(), any::<bool>())
        .prop_map(|(label, low, high, logarithmic, reversed)| Scale { label, low, high, logarithmic, reversed })
}

fn heat_map() -> impl Strategy<Value = Chart> {
    let texts = (words(), option::of(words()), words(), words());
    let legend = option::of((words(), words()).prop_map(|(light, dense)| HatchLegend { light, dense }));
    let cells = vec(vec(option::of(cell()), 0..5), 0..5);
    (texts, vec(words(), 0..6), vec(words(), 0..6), cells, scale(), legend).prop_map(
        |((title, subtitle, x_label, y_label), x_ticks, y_ticks, cells, scale, hatch_legend)| {
            Chart::HeatMap(HeatMap { title, subtitle, x_label, y_label, x_ticks, y_ticks, cells, scale, hatch_legend })
        },
    )
}

fn stacked_bars() -> impl Strategy<Value = Chart> {
    let parts = vec((words(), vec(number(), 0..60)), 0..5);
    (words(), option::of(words()), words(), words(), vec(words(), 0..60), parts).prop_map(
        |(title, subtitle, x_label, y_label, categories, parts)| {
            Chart::StackedBars(StackedBars { title, subtitle, x_label, y_label, categories, parts })
        },
    )
}

fn named_bars() -> impl Strategy<Value = Chart> {
    let bar = (words(), option::of(number()), any::<bool>(), option::of([number(), number()]), words());
    let bar =
        bar.prop_map(|(name, value, at_least, interval, note)| NamedBar { name, value, at_least, interval, note });
    (words(), option::of(words()), words(), vec(bar, 0..40))
        .prop_map(|(title, subtitle, x_label, bars)| Chart::NamedBars(NamedBars { title, subtitle, x_label, bars }))
}

fn tornado() -> impl Strategy<Value = Chart> {
    let end =
        || (number(), option::of([number(), number()])).prop_map(|(value, interval)| SwingEnd { value, interval });
    let swing = (words(), words(), [option::of(end()), option::of(end())]).prop_map(|(name, note, ends)| Swing {
        name,
        note,
        ends,
    });
    (words(), option::of(words()), words(), number(), [words(), words()], vec(swing, 0..9)).prop_map(
        |(title, subtitle, x_label, start, sides, swings)| {
            Chart::Tornado(Tornado { title, subtitle, x_label, start, sides, swings })
        },
    )
}

fn one_chart() -> impl Strategy<Value = Chart> {
    prop_oneof![line_chart(), heat_map(), named_bars(), stacked_bars(), tornado()]
}

fn chart() -> impl Strategy<Value = Chart> {
    let panels = (words(), 0..4_usize, vec(one_chart(), 0..4), any::<bool>(), option::of(number()));
    let panels = panels.prop_map(|(title, columns, charts, one_legend, width)| {
        Chart::Panels(Panels { title, columns, charts, one_legend, width })
    });
    prop_oneof![4 => one_chart(), 1 => panels]
}

/// Texts that the SVG shows.
fn shown(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).expect("well-formed SVG");
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text().map(str::to_owned)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn any_data_gives_a_picture(chart in chart()) {
        let svg = chart.svg()?;
        prop_assert_eq!(&svg, &chart.svg()?, "not the same bytes");
        let document = roxmltree::Document::parse(&svg)?;
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            let known = ["svg", "rect", "polyline", "polygon", "circle", "text"];
            prop_assert!(known.contains(&node.tag_name().name()), "{:?}", node.tag_name());
            for attribute in node.attributes() {
                prop_assert!(attribute.name() != "id");
                let value = attribute.value();
                let label = attribute.name() == "aria-label";
                prop_assert!(label || !(value.contains("NaN") || value.contains("inf")), "{}", value);
            }
        }
        let picture = png(&svg, 0.3)?;
        let pixels = resvg::tiny_skia::Pixmap::decode_png(&picture)?;
        prop_assert!(pixels.width() > 50 && pixels.height() > 10);
    }
}

#[test]
fn special_characters_are_shown_as_written() {
    let title = "a < b & c > \"d\" 'e'";
    let chart = Chart::LineChart(LineChart { title: title.into(), ..LineChart::default() });
    let svg = chart.svg().expect("a picture");
    assert!(shown(&svg).contains(&title.to_owned()));
    assert!(svg.contains("a &lt; b &amp; c &gt; &quot;d&quot;"));
    let document = roxmltree::Document::parse(&svg).expect("well-formed SVG");
    assert_eq!(document.root_element().attribute("aria-label"), Some(title));
}

#[test]
fn values_a_logarithmic_axis_cannot_show_are_left_out() {
    let points = [-1.0, 0.0, f64::NAN, 10.0, 1000.0].map(|y| Point::at(1.0, y));
    let series = Series { name: "s".into(), points: points.into(), marks: true, ..Series::default() };
    let axis = Axis { logarithmic: true, ..Axis::default() };
    let chart = Chart::LineChart(LineChart { y: axis, series: vec![series], ..LineChart::default() });
    let svg = chart.svg().expect("a picture");
    // Two marks in the plot and one in the legend, each on a rim.
    assert_eq!(svg.matches("<circle").count(), 6);
}

#[test]
fn every_cell_says_its_text() {
    let cell = |value: f64| Some(Cell { value, text: format!("v{value}"), hatch: Hatch::Dense });
    let map = HeatMap {
        x_ticks: vec!["a".into(), "b".into()],
        y_ticks: vec!["1".into(), "2".into()],
        cells: vec![vec![cell(1.0), None], vec![cell(3.0)]],
        ..HeatMap::default()
    };
    let texts = shown(&Chart::HeatMap(map).svg().expect("a picture"));
    assert!(texts.contains(&"v1".to_owned()) && texts.contains(&"v3".to_owned()));
    assert_eq!(texts.iter().filter(|text| *text == "–").count(), 2);
}

#[test]
fn one_legend_stands_for_all_panels() {
    let chart = |title: &str| {
        let series = Series { name: "P95".into(), points: vec![Point::at(1.0, 2.0)], ..Series::default() };
        Chart::LineChart(LineChart { title: title.into(), series: vec![series], ..LineChart::default() })
    };
    let legends = |one_legend| {
        let panels = Panels { columns: 2, charts: vec![chart("a"), chart("b")], one_legend, ..Panels::default() };
        let texts = shown(&Chart::Panels(panels).svg().expect("a picture"));
        texts.iter().filter(|text| *text == "P95").count()
    };
    assert_eq!((legends(false), legends(true)), (2, 1));
}

#[test]
fn text_is_drawn_with_the_bundled_font() {
    let title = |title: &str| {
        let chart = Chart::LineChart(LineChart { title: title.into(), ..LineChart::default() });
        png(&chart.svg().expect("a picture"), 1.0).expect("a PNG")
    };
    assert_ne!(title("Throughput"), title("Thoroughput"));
}

#[test]
fn what_cannot_be_a_png_is_explained() {
    let svg = Chart::Panels(Panels::default()).svg().expect("a picture");
    for scale in [0.0, -1.0, 1e6, f32::NAN, f32::INFINITY] {
        let refused = png(&svg, scale);
        assert!(matches!(refused, Err(PictureError::Size { .. })), "{scale}");
    }
    assert!(matches!(png("<svg", 1.0), Err(PictureError::Svg(_))));
}

/// Where the axis has ticks at the values of the points, two series with the same points stand beside each other.
#[test]
fn points_at_one_value_stand_beside_each_other() {
    let of = |name: &str| Series {
        name: name.to_owned(),
        points: [1.0, 4.0, 16.0].map(|x| Point::at(x, 5.0)).into(),
        marks: true,
        slot: Some(0),
        ..Series::default()
    };
    let chart = LineChart { series: vec![of("one"), of("two")], ..LineChart::default() };
    let places = |chart: LineChart| -> Vec<f64> {
        let svg = Chart::LineChart(chart).svg().unwrap();
        let of_circle =
            |rest: &str| rest.split_once("cx=\"").and_then(|(_, rest)| rest.split_once('"'))?.0.parse().ok();
        svg.split("<circle").skip(1).filter_map(of_circle).collect()
    };
    let apart =
        |places: &[f64]| places.iter().any(|one| places.iter().any(|other| (3.0..=6.0).contains(&(one - other))));
    let (over, beside) = (places(chart.clone()), places(chart.at_values()));
    assert!(!over.is_empty() && !apart(&over), "{over:?}");
    assert!(apart(&beside), "{beside:?}");
}
