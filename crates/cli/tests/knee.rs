//! `glidepath knee`: its output, its files, and the arguments that it refuses.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{glidepath, output, refused};

const QUICK: &str = "--tables 2 --duration 10min --set transaction.runtime={kind=\"exponential\",scale=\"5s\"}";

#[test]
fn an_answer_says_what_ended_it() {
    let folder = tempfile::tempdir().unwrap();
    let easy = output(glidepath(folder.path(), &format!("knee {QUICK} --no-what-if --budget 3s --within 20%")));
    assert!(easy.contains("Stopped: narrow enough; the interval is ±"), "{easy}");
    assert!(!easy.contains(" 1 runs "), "{easy}");
    let hard = format!("knee {QUICK} --fast-append 0.9 --no-what-if --budget 1s --within 0.2% --json");
    let json: serde_json::Value = serde_json::from_str(&output(glidepath(folder.path(), &hard))).unwrap();
    assert_eq!(json["stopped"]["reason"], "budget-spent", "{json}");
    assert!(json["stopped"]["budget_factor"].as_f64().unwrap() > 1.0, "{json}");
    assert!(json["stopped"]["half_width"].as_f64().unwrap() > 0.002, "{json}");
    assert!(folder.path().read_dir().unwrap().next().is_none(), "nothing was asked to be written");
}

/// A bound below the knee itself is not printed, because it has no meaning.
#[test]
fn what_the_work_did_not_suffice_for_is_not_told_as_a_figure() {
    let folder = tempfile::tempdir().unwrap();
    let text = output(glidepath(folder.path(), "knee --tables 1 --set retry.retries=30 --budget 1s"));
    assert!(text.contains("not known within this --budget") && !text.contains("> x0."), "{text}");
    assert!(!text.contains("at least x0."), "{text}");
    assert!(text.contains("s probably suffices)") && !text.contains("give a larger one"), "{text}");
    // The knee itself is a lower bound, so nothing is said to limit it, or not to.
    assert!(text.contains("Knee: above") && !text.contains("nothing alone"), "{text}");
    let limit = "What limits it: not known, because the search for the knee itself has not ended: a larger --budget";
    assert!(text.contains(limit), "{text}");
}

#[test]
fn a_ratio_to_a_lower_bound_is_not_told_as_a_factor() {
    let folder = tempfile::tempdir().unwrap();
    let asked = format!("knee {QUICK} --set arrivals.floor=10s --budget 2s");
    let text = output(glidepath(folder.path(), &asked));
    let limit = "What limits it: not known, because the highest load that the search tries still holds.";
    assert!(text.contains(limit) && !text.contains("twice the retries"), "{text}");
    assert!(!text.contains("at least x") && !text.contains("> x"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&output(glidepath(folder.path(), &format!("{asked} --json")))).unwrap();
    let list = |pointer: &str| json.pointer(pointer).unwrap().as_array().unwrap().iter();
    assert!(list("/what_ifs").len() > 5 && json["bottleneck"]["binds"].is_null(), "{json}");
    for one in list("/what_ifs").chain(list("/bottleneck/reliefs")) {
        assert!(one["at_least"] == false && (one["factor"].is_null() || one["at_most"] == true), "{one}");
        assert!(one["knee_commits_per_s"].is_number() && one["bound"].is_string(), "{one}");
    }
}

#[test]
fn a_bound_names_what_was_not_measured_and_the_day_of_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let asked = "measure sim:s3-express-2025-06 --quick --duration 1s --writers 1 --operations cas --out only";
    output(glidepath(folder.path(), asked));
    let asked = format!("knee --profile only/profile.toml {QUICK} --set arrivals.floor=10s --no-what-if --budget 1s");
    let text = output(glidepath(folder.path(), &asked));
    assert!(text.contains("Knee: at least 0.0") && text.contains("depends on an assumption: get and put"), "{text}");
    assert!(text.contains("The store was measured on 2") && !text.contains("The interval covers"), "{text}");
}

#[test]
fn each_field_of_the_json_is_on_the_page_about_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let page = include_str!("../../../docs/model.md");
    output(glidepath(folder.path(), "measure sim:s3-express-2025-06 --quick --duration 1s --writers 1,2 --out m"));
    let asked = format!("knee --profile m/profile.toml {QUICK} --budget 4s --sensitivity --json");
    let one: serde_json::Value = serde_json::from_str(&output(glidepath(folder.path(), &asked))).unwrap();
    assert!(one["measurement"]["drawn"].is_number() && one["sensitivity"][0]["less"].is_object(), "{one}");
    let several = output(glidepath(folder.path(), &format!("knees {QUICK} --fast-append 1,0.9 --budget 1s --json")));
    let mut several: serde_json::Value = serde_json::from_str(&several).unwrap();
    for point in several["points"].as_array_mut().unwrap() {
        // Its fields are the names of settings.
        assert!(point["coordinates"].take().is_object());
    }
    fn check(page: &str, part: &serde_json::Value) {
        for (field, inner) in part.as_object().into_iter().flatten() {
            assert!(page.contains(&format!("`{field}`")), "{field} is not in docs/model.md");
            check(page, inner);
        }
        part.as_array().into_iter().flatten().for_each(|inner| check(page, inner));
    }
    check(page, &one);
    check(page, &several);
}

/// The budget that the message names is enough.
#[test]
fn a_budget_that_is_too_small_names_one_that_suffices() {
    let folder = tempfile::tempdir().unwrap();
    let answer = |budget: u64| -> serde_json::Value {
        let question = format!("knee --provider s3-express {QUICK} --budget {budget}s --json");
        serde_json::from_str(&output(glidepath(folder.path(), &question))).unwrap()
    };
    let open = |json: &serde_json::Value| {
        let count = |list: &serde_json::Value| list.as_array().unwrap().len();
        count(&json["undecided"]) + count(&json["bottleneck"]["undecided"])
    };
    let small = answer(1);
    assert!(open(&small) > 0, "{small}");
    let enough = small["sufficient_budget_s"].as_u64().unwrap();
    assert!(enough > 1, "{enough}");
    let large = answer(enough);
    assert!(open(&large) == 0 && large["sufficient_budget_s"].is_null(), "{enough} s: {large}");
}

/// A fast store takes more events than others, and the alternatives to its profile take a part of the budget.
#[test]
fn the_default_budget_answers_for_a_fast_store_that_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    output(glidepath(folder.path(), "measure sim:s3-express --quick"));
    let text = output(glidepath(folder.path(), "knee --profile results/measure/profile.toml"));
    let limit = "What limits it: reading and writing table metadata with each attempt.";
    assert!(text.contains(limit), "{text}");
    assert!(text.contains("With the measurement of the store:"), "{text}");
}

#[test]
fn assumptions_are_a_table_a_picture_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        output(glidepath(folder.path(), &format!("knee {QUICK} --no-what-if --budget 2s --sensitivity --out k")));
    assert!(text.contains("assumptions, most important first") && text.contains("latency of the store"), "{text}");
    assert!(text.contains("Report: k/report.html"), "{text}");
    let read = |name: &str| std::fs::read(folder.path().join("k").join(name)).unwrap();
    assert!(read("sensitivity.png").starts_with(b"\x89PNG"));
    let (svg, page) = (read("sensitivity.svg"), String::from_utf8(read("report.html")).unwrap());
    assert!(String::from_utf8(svg).unwrap().contains("latency of the store"));
    assert!(page.contains("Which assumption has the largest effect") && page.contains("<svg"), "{page}");
    let text = String::from_utf8(read("report.md")).unwrap();
    assert!(text.contains("| latency of the store |"));
    let file = text.split("```\n").nth(1).expect("a page has the configuration");
    assert!(file.contains("[arrivals]") && page.contains("[arrivals]"), "{file}");
    std::fs::write(folder.path().join("k/mine.svg"), "a picture of somebody else").unwrap();
    output(glidepath(folder.path(), &format!("knee {QUICK} --no-what-if --budget 1s --out k")));
    let listed = std::fs::read_dir(folder.path().join("k")).unwrap();
    let mut names: Vec<_> = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["made-by.txt", "mine.svg", "report.html", "report.md"]);
}

/// Arrivals that are ten seconds apart or more make no load that fails.
#[test]
fn where_every_load_holds_the_ceiling_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let asked = format!("knee {QUICK} --set arrivals.floor=10s --no-what-if --budget 1s");
    let text = output(glidepath(folder.path(), &asked));
    assert!(text.contains("Knee: at least 0.0") && text.contains("(--set arrivals.floor=...) raises it"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, what) in [
        ("--within 0", "--within"),
        ("--within 101%", "--within"),
        ("--within narrow", "0.1% to 100%"),
        ("--budget 10ms", "1s to 24h"),
        ("--commit-within 0s", "error: --commit-within: found 0; allowed: a time above zero"),
        ("--worst 1min", "error: --worst: found 1min; allowed: no such option for a load without bursts"),
        ("--tolerance 2", "--tolerance: found 2; allowed: 0.001 to 1"),
        ("--sensitivity maybe", "maybe"),
        ("--threshold nearly", "a share, such as 95% or 0.95"),
        ("--threshold 100%", "--threshold: found 1; allowed: 0 < share < 1"),
        (
            "--fast-append 190%",
            "--fast-append 190%: transaction.fast_append: found 1.9; allowed: 0 to 1, such as 0.9 or 90%",
        ),
        ("--fast-append -10%", "--fast-append -10%: transaction.fast_append: found -0.1; allowed: 0 to 1"),
        ("--set arrivals.scale=10ms", "--set arrivals.scale=10ms: the search varies this value itself"),
        ("--profile missing.toml", "`glidepath measure STORE` writes a profile"),
    ] {
        let error = refused(glidepath(folder.path(), &format!("knee {arguments}")), 2);
        assert!(error.contains(what), "{arguments}: {error}");
    }
}

#[test]
fn a_folder_that_cannot_be_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let arguments = format!("knee {QUICK} --no-what-if --budget 1s --out file/k");
    let error = refused(glidepath(folder.path(), &arguments), 1);
    assert!(error.contains("file/k") && error.contains("cannot create this folder"), "{error}");
}
