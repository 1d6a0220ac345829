//! Which results does a folder have, and does a new measurement have all of them, too?

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use glidepath_measure::{Operation, Plan};
use serde::Deserialize;

use super::compare;
use crate::failure::Failure;

/// The part of `latencies.json` that says what was measured.
#[derive(Deserialize)]
struct Summary {
    measurements: Vec<Kind>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Kind {
    operation: Operation,
    writers: u32,
}

/// Refuses to replace results by fewer: an operation or a number of writers would be lost.
pub(super) fn check(out: &Path, plan: &Plan) -> Result<(), Failure> {
    // Results that cannot be read are of no use, and are replaced.
    let Some(found) = read(out) else { return Ok(()) };
    let planned: BTreeSet<Kind> =
        plan.trials().map(|trial| Kind { operation: trial.operation, writers: trial.writers }).collect();
    if found.is_subset(&planned) {
        return Ok(());
    }
    Err(Failure::Mistake(format!(
        "{} has results of {}. This run would replace them, and measure only {}: give another --out, or remove that \
         folder",
        out.display(),
        words(&found),
        words(&planned)
    )))
}

fn read(out: &Path) -> Option<BTreeSet<Kind>> {
    let text = std::fs::read_to_string(out.join(compare::FILE)).ok()?;
    let Summary { measurements } = serde_json::from_str(&text).ok()?;
    Some(measurements.into_iter().collect())
}

/// Operations that were measured with the same numbers of writers are named together.
fn words(kinds: &BTreeSet<Kind>) -> String {
    let mut writers: BTreeMap<Operation, Vec<String>> = BTreeMap::new();
    for kind in kinds {
        writers.entry(kind.operation).or_default().push(kind.writers.to_string());
    }
    let mut groups: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for (operation, writers) in writers {
        match groups.iter_mut().find(|(known, _)| *known == writers) {
            Some((_, names)) => names.push(operation.name()),
            None => groups.push((writers, vec![operation.name()])),
        }
    }
    let group = |(writers, names): &(Vec<String>, Vec<String>)| {
        let noun = if *writers == ["1"] { "writer" } else { "writers" };
        format!("{} with {} {noun}", names.join(", "), writers.join(", "))
    };
    groups.iter().map(group).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use glidepath_model::ByteSize;

    use super::*;

    /// Results as a complete run of this plan leaves them.
    fn results(plan: &Plan) -> String {
        let measured = plan.trials().map(
            |trial| serde_json::json!({ "operation": trial.operation, "writers": trial.writers, "success_ms": [1.0] }),
        );
        let measurements: Vec<_> = measured.collect();
        serde_json::json!({ "store": "memory:", "measurements": measurements }).to_string()
    }

    #[test]
    fn fewer_results_do_not_replace_more() {
        let folder = tempfile::tempdir().unwrap();
        let small = Plan {
            operations: vec![Operation::Cas],
            writers: vec![1],
            sizes: vec![ByteSize::from_bytes(1 << 10)],
            put: false,
            ..Plan::quick()
        };
        let (quick, full) = (Plan::quick(), Plan::full());
        let allowed = |plan: &Plan| check(folder.path(), plan).is_ok();
        assert!(allowed(&small));
        let cases = [(&small, [true; 3]), (&quick, [false, true, true]), (&full, [false, false, true])];
        for (earlier, may_follow) in cases {
            std::fs::write(folder.path().join(compare::FILE), results(earlier)).unwrap();
            assert_eq!([&small, &quick, &full].map(allowed), may_follow);
        }
        let Err(Failure::Mistake(told)) = check(folder.path(), &small) else { panic!("it would be replaced") };
        assert!(told.contains("results of cas, create, append with 1, 2, 4, 8, 16 writers; get 1KiB, "), "{told}");
        assert!(told.contains("measure only cas, get 1KiB with 1 writer: give another --out"), "{told}");
    }
}
