//! `glidepath reproduce --only versioned-manifest`: the published sweep of a versioned manifest beside ours.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use glidepath_bench::{Cell, Design, Machine, Operation, Start, predict};
use glidepath_lab::library::Shelf;
use glidepath_lab::reproduce::page::Made;
use glidepath_lab::reproduce::versioned_manifest::{Extent, Ours, Published, chart, page, simulate};
use glidepath_model::Span;
use glidepath_protocols::manifest_chain::Layout;
use glidepath_sim::Profile;

use super::{Arguments, Part, unwritable};
use crate::failure::Failure;
use crate::output::{complain, print};

/// The store of the published sweep.
const PROFILE: &str = "s3-standard";

/// Writers of the cells of our chain, and whether they are threads of one process.
const OURS: [(u32, bool); 4] = [(1, false), (10, false), (200, false), (200, true)];

pub(super) fn run(arguments: &Arguments, stop: &'static AtomicBool) -> Result<(), Failure> {
    let out = arguments.page(Part::VersionedManifest);
    let began = Instant::now();
    let published = Published::load().map_err(|error| Failure::Failed(error.to_string()))?;
    let text = Shelf::Providers.find(PROFILE)?;
    let profile = Profile::parse(&text.text).map_err(|error| Failure::Failed(format!("{}: {error}", text.origin)))?;
    let extent = if arguments.quick { Extent::quick() } else { Extent::full() };
    let cells = published.continuous(&extent).count() + published.concurrent(&extent).count();
    complain(&format!("Versioned manifest: {cells} cells, from first principles and fitted"));
    let stopped =
        || Failure::Interrupted("Stopped; this part keeps no results. It will start from the beginning.".to_owned());
    let sweep = simulate(published, &profile, extent, arguments.threads.count(), stop).ok_or_else(stopped)?;
    let mut ours = Vec::new();
    // A coarse run leaves out the largest catalogs, because filling them takes too long.
    let most = if arguments.quick { 100_000 } else { u64::MAX };
    for published in sweep.published.continuous(&sweep.extent).filter(|cell| cell.indexed && cell.rows <= most) {
        complain(&format!("Manifest chain: {} entries", published.rows));
        for (writers, shared) in OURS {
            let ours_here = our(&profile, published.rows, (writers, shared), stop);
            if stop.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            ours.push(ours_here?);
        }
    }
    let made = Made {
        command: arguments.command(),
        git_revision: crate::GIT_REVISION.to_owned(),
        quick: arguments.quick,
        seconds: Some(began.elapsed().as_secs_f64()),
    };
    let picture = out.with_extension("svg");
    let svg = chart(&sweep, &ours).svg().map_err(|error| Failure::Failed(error.to_string()))?;
    std::fs::write(&picture, svg).map_err(unwritable(&picture))?;
    let name = picture.file_name().unwrap_or_default().to_string_lossy();
    std::fs::write(&out, page::write(&sweep, &ours, &made, &name)).map_err(unwritable(&out))?;
    print(&format!("{cells} published cells compared with ours; see {}", out.display()))
}

/// Our chain, with indices, by the code that runs live.
fn our(
    profile: &Profile,
    rows: u64,
    (writers, shared): (u32, bool),
    stop: &'static AtomicBool,
) -> Result<Ours, Failure> {
    let cell = Cell {
        design: Design::chain(Layout::Paged, true),
        operation: Operation::Commit,
        start: Start::Warm,
        rows,
        writers,
        grouped: shared,
        processes: !shared,
        duration: Span::from_secs(30),
        least: 0,
        added_latency: Span::ZERO,
    };
    // The published machine had 192 processors.
    let predicted = predict(profile, &Machine::boundless(), &cell, 1, stop);
    let figures = predicted.map_err(|error| Failure::Failed(error.to_string()))?.figures();
    Ok(Ours {
        rows,
        writers,
        shared,
        commits_per_s: figures.operations_per_s,
        p50_ms: figures.p50_ms,
        p99_ms: figures.p99_ms,
        errors: figures.errors,
    })
}
