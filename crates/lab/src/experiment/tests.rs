use super::*;
use crate::library::Shelf;

fn plan(text: &str, overrides: &Overrides) -> Result<Experiment, ExperimentError> {
    Experiment::plan("mine", "mine.toml", File::parse("mine.toml", text)?, overrides)
}

fn planned(text: &str) -> Experiment {
    plan(text, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    plan(text, &Overrides::default()).unwrap_err().to_string()
}

fn with(settings: &[&str]) -> Overrides {
    let settings = settings.iter().map(|setting| Setting::parse(setting).unwrap()).collect();
    Overrides { settings, ..Overrides::default() }
}

#[test]
fn the_experiments_that_ship_have_the_published_sizes() {
    let sizes = [
        ("1a", 10),
        ("1b", 80),
        ("2a", 70),
        ("2b", 70),
        ("4a", 240),
        ("4a-zipf", 240),
        ("4b", 240),
        ("4b-zipf", 240),
        ("4c", 900),
        ("compaction", 36),
        ("retry-policies", 45),
        ("substrates", 1080),
        ("substrates-append", 144),
    ];
    assert!(Shelf::Experiments.names().eq(sizes.iter().map(|(name, _)| *name)));
    for (name, points) in sizes {
        let experiment = Experiment::load(name, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((experiment.points.len(), experiment.seeds.len()), (points, 5), "{name}");
        assert!(!experiment.description.is_empty(), "{name}");
    }
}

#[test]
fn every_preset_that_ships_is_complete() {
    for preset in Shelf::Presets.names() {
        let mut overrides = Overrides { preset: Some(preset.to_owned()), ..Overrides::default() };
        assert_eq!(Experiment::of_preset(preset, &overrides).unwrap().points.len(), 1);
        overrides.quick = true;
        assert_eq!(Experiment::of_preset(preset, &overrides).unwrap().seeds, [1]);
    }
}

#[test]
fn axes_vary_in_the_order_of_the_file_and_the_last_fastest() {
    let experiment = planned(
        "[sweep]\n\"tables.count\" = [2, 1]\n\"catalog.latency\" = [\"none\", \"5ms\"]\narrivals.scale = [\"1s\", \
         \"2s\"]\n[[alternatives]]\nname = \"a\"\nset = { \"retry.retries\" = 3 }\n[[alternatives]]\nname = \"b\"\nset \
         = {}\n",
    );
    let keys: Vec<_> = experiment.axes.iter().map(|axis| axis.key.as_str()).collect();
    assert_eq!(keys, ["tables.count", "catalog.latency", "arrivals.scale", "alternative"]);
    assert_eq!(experiment.points.len(), 16);
    let at = |index: usize| {
        let planned = &experiment.points[index];
        let values: Vec<_> = planned.coordinates.iter().map(|(_, value)| value.as_str()).collect();
        (values.join(" "), planned.point.config.retry.retries)
    };
    assert_eq!(at(0), ("2 none 1s a".to_owned(), 3));
    assert_eq!(at(1), ("2 none 1s b".to_owned(), 4));
    assert_eq!(at(2), ("2 none 2s a".to_owned(), 3));
    assert_eq!(at(15), ("1 5ms 2s b".to_owned(), 4));
    assert!(experiment.points[0].point.config.catalog.latency.is_none());
    assert_eq!(experiment.points[15].coordinate("tables.count"), Some("1"));
}

#[test]
fn a_later_layer_overrides_field_by_field() {
    let text = "preset = \"published-2026-06\"\n[transaction]\nruntime = { scale = \"60s\" }\n";
    let runtime = planned(text).points[0].point.config.transaction.runtime;
    assert_eq!(
        (runtime.scale.to_string(), runtime.sigma, runtime.floor.to_string()),
        ("1min".into(), 1.5, "30s".into())
    );
    let overrides = with(&[
        "transaction.runtime.scale=20s",
        "retry.table={ exponential = { first = \"1s\", factor = 2, longest = \"9s\" } }",
    ]);
    let experiment = plan(text, &overrides).unwrap();
    let config = &experiment.points[0].point.config;
    assert_eq!(config.transaction.runtime.scale.to_string(), "20s");
    assert_ne!(config.retry.table, config.retry.catalog);
}

#[test]
fn what_the_runtime_of_overwrites_does_not_say_is_as_in_that_of_all() {
    let of = |settings: &[&str]| {
        let experiment = plan("[transaction]\nruntime.floor = \"2s\"\n", &with(settings)).unwrap();
        experiment.points[0].point.config.transaction.overwrite_runtime
    };
    assert_eq!(of(&[]), None);
    let longer = of(&["transaction.overwrite_runtime.scale=1h"]).unwrap();
    assert_eq!((longer.scale.to_string(), longer.sigma, longer.floor.to_string()), ("1h".into(), 1.5, "2s".into()));
    let fixed = of(&["transaction.overwrite_runtime={kind=\"fixed\"}"]).unwrap();
    assert_eq!((fixed.scale.to_string(), fixed.sigma, fixed.floor.to_string()), ("3min".into(), 0.0, "0ns".into()));
    let none = "transaction.overwrite_runtime=none";
    assert_eq!(of(&["transaction.overwrite_runtime.scale=1h", none]), None);
    let wrong = plan("", &with(&["transaction.overwrite_runtime={kind=\"fixed\",sigma=1.0}"])).unwrap_err().to_string();
    assert!(
        wrong.contains("transaction.overwrite_runtime.sigma: found 1.0, but kind = \"fixed\" has no sigma"),
        "{wrong}"
    );
    let much = plan("", &with(&["transaction.overwrite_runtime.sigma=6.0"])).unwrap_err().to_string();
    assert!(much.contains("transaction.overwrite_runtime.sigma: found 6; allowed: 0 to 5"), "{much}");
}

#[test]
fn another_kind_of_distribution_leaves_the_old_ones_floor_and_sigma_behind() {
    let of = |text: &str| {
        let experiment = planned(&format!("preset = \"published-2026-06\"\n[transaction]\nruntime = {text}\n"));
        let runtime = experiment.points[0].point.config.transaction.runtime;
        (runtime.scale.to_string(), runtime.sigma, runtime.floor.to_string())
    };
    assert_eq!(of("{ kind = \"fixed\", scale = \"5s\" }"), ("5s".into(), 0.0, "0ns".into()));
    assert_eq!(of("{ kind = \"lognormal-mean\" }"), ("3min".into(), 1.5, "0ns".into()));
    assert_eq!(of("{ kind = \"fixed\", floor = \"9s\" }"), ("3min".into(), 0.0, "9s".into()));
    let none = refusal("[transaction]\nfast_append = 0.5\n[arrivals]\nkind = \"lognormal\"\n");
    assert!(none.starts_with("mine.toml: arrivals.sigma: found none, but kind = \"lognormal\" needs one"), "{none}");
    let idle = refusal("[arrivals]\nsigma = 0.5\n");
    assert!(idle.contains("arrivals.sigma: found 0.5, but kind = \"exponential\" has no sigma"), "{idle}");
}

#[test]
fn the_command_line_takes_the_place_of_an_axis() {
    let text = "[sweep]\n\"arrivals.scale\" = [\"1s\", \"2s\"]\n\"tables.count\" = [1, 2, 3]\n";
    let experiment = plan(text, &with(&["arrivals.scale=7s"])).unwrap();
    assert_eq!((experiment.axes.len(), experiment.points.len()), (1, 3));
    assert_eq!(experiment.points[0].point.config.arrivals.scale.to_string(), "7s");
    let several = Overrides {
        settings: vec![Setting::of_option("--tables", "tables.count", "5,6"), Setting::parse("duration=60s").unwrap()],
        ..Overrides::default()
    };
    let experiment = plan(text, &several).unwrap();
    assert_eq!(experiment.axes[1], Axis { key: "tables.count".to_owned(), values: vec!["5".into(), "6".into()] });
    assert_eq!(experiment.points.len(), 4);
    let last_word = Overrides {
        settings: vec![
            Setting::of_option("--tables", "tables.count", "5,6"),
            Setting::parse("tables.count=9").unwrap(),
            Setting::parse("arrivals.scale=9s").unwrap(),
        ],
        ..Overrides::default()
    };
    let experiment = plan(text, &last_word).unwrap();
    assert_eq!((experiment.points.len(), experiment.points[0].point.config.tables.count), (1, 9));
}

#[test]
fn a_quick_run_keeps_what_shows_the_shape() {
    let quick = Overrides { quick: true, ..Overrides::default() };
    let experiment = Experiment::load("4c", &quick).unwrap();
    let values: Vec<_> = experiment.axes.iter().map(|axis| axis.values.join(" ")).collect();
    assert_eq!(values[0], "s3-express s3-standard azure-premium azure-standard gcs");
    assert_eq!(values[1..], ["1 10 50", "1.0 0.9 0.5", "50ms 200ms 400ms 1000ms 5000ms"]);
    assert_eq!(experiment.seeds, [1]);
    assert!(experiment.notes[0].contains("225 of 900 points"), "{:?}", experiment.notes);
    let settings =
        [Setting::of_text_option("--provider", "provider", "gcs"), Setting::of_option("--tables", "tables.count", "3")];
    let fewer = Overrides { settings: settings.into(), ..quick.clone() };
    let notes = Experiment::load("4c", &fewer).unwrap().notes;
    assert!(notes[0].contains("15 of 30 points"), "{notes:?}");
    let policies = Experiment::load("retry-policies", &quick).unwrap();
    assert_eq!(policies.axes.last().unwrap().values.len(), 5);
}

#[test]
fn mistakes_are_answered_with_layer_field_found_and_allowed() {
    let cases = [
        (
            "[arrivals]\nscale = 35\n",
            "mine.toml: arrivals.scale: found integer \"35\"; allowed: a span of time with its unit",
        ),
        ("[arrivals]\nscale = \"35\"\n", "mine.toml: arrivals.scale: \"35\" is not a span of time"),
        (
            "[arrivals]\nscal = \"1s\"\n",
            "mine.toml: arrivals.scal: found unknown field \"scal\" (did you mean \"scale\"?)",
        ),
        ("[tabels]\ncount = 3\n", "mine.toml: tabels: found this unknown field (did you mean \"tables\"?)"),
        ("[tables]\nchoice = \"unifrom\"\n", "mine.toml: tables.choice: found \"unifrom\" (did you mean \"uniform\"?)"),
        ("[tables]\ncount = \"many\"\n", "mine.toml: tables.count: found string \"many\"; allowed: a whole number"),
        ("[tables]\ncount = 0\n", "mine.toml: tables.count: found 0; allowed: 1 to 100000"),
        (
            "[tables]\nmanifest_list = \"append\"\n",
            "mine.toml: tables.manifest_list: found \"append\"; allowed: \"rewrite\"",
        ),
        ("seeds = 0\n", "mine.toml: seeds: found 0; allowed: 1 to 10000"),
        ("seeds = \"5\"\n", "mine.toml: seeds: found string \"5\"; allowed: a whole number"),
        ("provider = \"s3\"\n", "mine.toml: provider: there is no provider \"s3\""),
        ("preset = \"icebreg\"\n", "there is no preset \"icebreg\" (did you mean \"iceberg\"?)"),
        (
            "[sweep]\n\"tables.count\" = 3\n",
            "mine.toml: sweep.tables.count: found 3; allowed: a list of values, such as [3]",
        ),
        ("[sweep]\n\"tables.count\" = []\n", "mine.toml: sweep.tables.count: found no value"),
        ("[sweep]\n\"tables.count\" = [1, 1]\n", "mine.toml: tables.count: found \"1\" twice"),
        (
            "[sweep]\n\"tables.cuont\" = [1]\n",
            "mine.toml, [sweep]: tables.cuont: found unknown field \"cuont\" (did you mean \"count\"?)",
        ),
        (
            "[sweep]\ntables.count = [1, 3]\narrivals.scale = [\"50ms\", \"1s\", \"0.05s\"]\nretry.retries = [1, 2]\n",
            "mine.toml, [sweep]: arrivals.scale: found \"50ms\" and \"0.05s\", which are equal; allowed: each value",
        ),
        (
            "protocol = \"tickets\"\n",
            "mine.toml: protocol: found this unknown field (did you mean \"catalog.protocol\"?)",
        ),
        (
            "[sweep]\nprotocol = [\"tickets\"]\n",
            "mine.toml, [sweep]: protocol: found unknown field \"protocol\" (did you mean \"catalog.protocol\"?)",
        ),
        ("threshold = 0.9\n", "mine.toml: threshold: found this unknown field (--threshold is an option of a search"),
        (
            "[tables]\ncount = -1\n",
            "mine.toml: tables.count: found integer \"-1\"; allowed: a whole number from 1 to 100000",
        ),
        ("[sweep]\n\"tables.count\" = [1, 0]\n", "mine.toml, [sweep]: tables.count: found 0"),
        ("version = 1\nof = \"x\"\n[[sampling]]\n", "mine.toml: version: found this unknown field"),
        ("[[alternatives]]\nset = {}\n", "mine.toml: alternatives[0]: name is missing"),
        (
            "[[alternatives]]\nname = \"x\"\nset = { \"retry.retries\" = -1 }\n",
            "mine.toml, alternative \"x\": retry.retries: found integer \"-1\"",
        ),
        ("[arrivals\n", "mine.toml: TOML parse error at line 1"),
        ("[arrivals.burst]\nevery = \"1s\"\n", "mine.toml: arrivals.burst: lasts is missing"),
    ];
    for (text, expected) in cases {
        let found = refusal(text);
        assert!(found.starts_with(expected), "{text}\n  says    {found}\n  and not {expected}");
    }
    let profile = refusal("source = \"x\"\n[get]\nmedian = \"1ms\"\n");
    assert!(profile.ends_with("This file looks like the profile of a store: give it with --profile"), "{profile}");
    let text = "[sweep]\n\"retry.retries\" = [1]\n[[alternatives]]\nname = \"x\"\nset = { retry.retries = 2 }\n";
    assert!(refusal(text).contains("retry.retries: found in two axes"), "{}", refusal(text));
}

#[test]
fn the_command_line_is_named_for_its_own_mistakes() {
    let of = |setting: &str| plan("", &with(&[setting])).unwrap_err().to_string();
    assert!(of("arrivals.scale=35").starts_with("--set arrivals.scale=35: arrivals.scale: found integer \"35\""));
    assert!(of("retry.retires=3").starts_with("--set retry.retires=3: retry.retires: found unknown field"));
    for table in ["arrivals", "transaction.overwrite_runtime"] {
        let said = of(&format!("{table}=3"));
        let start = format!("--set {table}=3: {table}: found integer \"3\" (did you mean \"{table}.");
        assert!(said.starts_with(&start) && said.contains("; allowed: a table"), "{said}");
        assert!(said.contains(&format!("\"{table}.scale\"")), "{said}");
    }
    assert!(of("provider.x=1").starts_with("--set provider.x=1: provider"), "{}", of("provider.x=1"));
    let wrong = |setting: &str| Setting::parse(setting).unwrap_err().to_string();
    assert!(wrong("duration").contains("allowed: key=value"), "{}", wrong("duration"));
    assert!(wrong("tables.choice={ zipf = }").contains("this is not a value"), "{}", wrong("tables.choice={ zipf = }"));
    assert!(wrong(".x=1").contains("found an empty name"));
}

#[test]
fn the_same_plan_has_the_same_hash() {
    let of = |text: &str| planned(text).hash();
    assert_eq!(of("duration = \"60s\""), of("duration = \"1min\"\ntitle = \"another\""));
    assert_ne!(of("duration = \"60s\""), of("duration = \"61s\""));
    assert_ne!(of("seeds = 1"), of("seeds = 2"));
}

#[test]
fn one_load_is_on_the_preset_that_is_named() {
    for name in ["published-2026-03", "published-2026-06", "iceberg"] {
        assert_eq!(Experiment::of_preset(name, &Overrides::default()).unwrap().preset, name);
    }
}
