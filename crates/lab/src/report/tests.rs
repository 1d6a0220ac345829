use super::*;
use crate::experiment::Overrides;
use crate::library::Shelf;
use crate::pictures::tests::{experiment, growing, knee, results};

fn drawn_page(experiment: &Experiment, summary: &RunSummary, provenance: &Provenance) -> String {
    let drawn = crate::pictures::draw(crate::pictures::plan(experiment, summary)).unwrap();
    page(experiment, (summary, &drawn), provenance)
}

fn report(experiment: &Experiment) -> String {
    let provenance = Provenance { git_revision: "0123abc".to_owned() };
    drawn_page(experiment, &results(experiment, growing), &provenance)
}

#[test]
fn the_configuration_is_a_file_that_plans_the_same_points() {
    let folder = tempfile::tempdir().unwrap();
    for name in Shelf::Experiments.names() {
        let quick = Overrides { quick: true, ..Overrides::default() };
        let experiment = Experiment::load(name, &quick).unwrap_or_else(|error| panic!("{error}"));
        let path = folder.path().join(format!("{name}.toml"));
        let text = experiment_file(&experiment);
        std::fs::write(&path, &text).unwrap();
        let again = Experiment::load(&path.to_string_lossy(), &Overrides::default());
        let again = again.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(again.points, experiment.points, "{name}");
        assert_eq!(again.hash(), experiment.hash(), "{name}");
        let told =
            |of: &Experiment| of.set.iter().map(|set| set.split(" = ").next().map(str::to_owned)).collect::<Vec<_>>();
        assert_eq!(told(&again), told(&experiment), "{name}: what is as in the preset is not told");
    }
}

#[test]
fn lower_bounds_of_knees_are_not_ranked_among_those_that_were_found() {
    let experiment = experiment("[sweep]\n\"tables.count\" = [1, 2, 5, 10]\n");
    let mut knees: Vec<_> = [12.0, 20.0, 3.0, 40.0].map(knee).into();
    let provenance = Provenance { git_revision: "0123abc".to_owned() };
    let options = crate::knee::KneeOptions::default();
    let page = |knees: &[_]| knees_page(&experiment, (knees, &options), &[], &provenance);
    let all_found = page(&knees);
    assert!(all_found.contains("The highest knee is 40.0") && all_found.contains("The lowest knee is 3.00"));
    (knees[2].bound, knees[3].bound) = (crate::knee::Bound::Unfinished, crate::knee::Bound::AllHold);
    let some = page(&knees);
    for part in [
        "The highest of the knees that were found is 20.0",
        "found is 12.0",
        "2 of 4 are lower bounds",
        "these is at least 40.0",
    ] {
        assert!(some.contains(part), "{part}");
    }
}

#[test]
fn a_report_says_what_it_was_made_of() {
    let experiment = experiment("[sweep]\n\"arrivals.scale\" = [\"1s\", \"50ms\"]\n\"tables.count\" = [1, 7]\n");
    let page = report(&experiment);
    for part in ["0123abc", &experiment.hash(), "&quot;arrivals.scale&quot; = [&quot;1s&quot;, &quot;50ms&quot;]"] {
        assert!(page.contains(part), "{part}");
    }
    for anchor in ["findings", "pictures-success", "results", "configuration", "definitions"] {
        assert!(
            page.contains(&format!("href=\"#{anchor}\"")) && page.contains(&format!("id=\"{anchor}\"")),
            "{anchor}"
        );
    }
    assert_eq!(page.matches("<svg").count(), crate::pictures::plan(&experiment, &results(&experiment, growing)).len());
    assert_eq!(page, report(&experiment), "not the same bytes");
}

#[test]
fn what_users_write_stays_text() {
    let hostile = "title = \"<script>alert(1)</script>\"\ndescription = \"<img src=x onerror=alert(2)>\"\n\
        [sweep]\n\"arrivals.scale\" = [\"1s\", \"50ms\"]\n\
        [[alternatives]]\nname = \"</td><script>\"\nset = { \"retry.retries\" = 1 }\n\
        [[alternatives]]\nname = \"'\\\"><b>\"\nset = { \"retry.retries\" = 2 }\n";
    let page = report(&experiment(hostile));
    assert_eq!(page.matches("<script>").count(), 1, "only our own");
    assert!(!page.contains("<img") && !page.contains("<b>"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn a_report_loads_nothing() {
    let page = report(&experiment("[sweep]\n\"arrivals.scale\" = [\"1s\", \"50ms\"]\n"));
    for outside in [" src=", "url(", "@import", "<link", "href=\"http"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn results_of_every_shape_have_a_report() {
    for text in ["", "[transaction]\nfast_append = 0.0", "[sweep]\nprovider = [\"gcs\", \"s3-express\"]\n"] {
        let experiment = experiment(text);
        for health in [0.0, 1.0] {
            let provenance = Provenance { git_revision: "unknown".to_owned() };
            let page = drawn_page(&experiment, &results(&experiment, |_, _| health), &provenance);
            assert!(page.contains("</html>") && !page.contains(">NaN") && !page.contains(">inf"), "{text}");
        }
    }
}
