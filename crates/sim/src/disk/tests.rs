#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use glidepath_env::{Access, Files};
use glidepath_model::Instant;

use super::{Disk, DiskFaults, SimFiles};
use crate::simulation::{Mode, Setup, Simulation};

/// Runs something on the disk.
fn on<F: Future<Output = ()> + 'static>(disk: &Disk, act: impl FnOnce(SimFiles) -> F) {
    let setup = Setup { seed: 1, horizon: Instant::from_nanos(1 << 40), mode: Mode::EveryOperation, stores: vec![] };
    let ended = Rc::new(Cell::new(false));
    let (disk, told) = (disk.clone(), Rc::clone(&ended));
    Simulation::new(setup).run([(Instant::ZERO, move |env| {
        let act = act(disk.process(env));
        async move {
            act.await;
            told.set(true);
        }
    })]);
    assert!(ended.get(), "the task never ended");
}

const FAILING: DiskFaults = DiskFaults {
    failed_sync: 1.0,
    io_error: 0.0,
    full: 0.0,
    many_files: 0.0,
    short: 0.0,
    death: 0.0,
    paused: 0.0,
    pause: glidepath_model::Span::ZERO,
};

fn path() -> &'static Path {
    Path::new("/file")
}

/// Of 200 disks on which this was done, how many show the file with this content after a power cut.
fn survive<F: Future<Output = ()> + 'static>(content: &[u8], act: impl Fn(Disk, SimFiles) -> F) -> usize {
    let survives = |seed| {
        let disk = Disk::new(seed);
        on(&disk, |files| act(disk.clone(), files));
        disk.restart();
        disk.files().get("/file").is_some_and(|found| found == content)
    };
    (0..200).filter(|seed| survives(*seed)).count()
}

#[test]
fn what_is_synced_survives_and_what_is_not_may() {
    let write = |sync_file: bool, sync_folder: bool| {
        survive(b"content", move |_, files| async move {
            let folder = files.open(Path::new("/"), Access::Read).await.unwrap();
            let file = files.open(path(), Access::New).await.unwrap();
            files.write_at(&file, b"content", 0).await.unwrap();
            if sync_file {
                files.sync_file(&file).await.unwrap();
            }
            if sync_folder {
                files.sync_folder(&folder).await.unwrap();
            }
        })
    };
    assert_eq!(write(true, true), 200);
    for some in [write(true, false), write(false, true), write(false, false)] {
        assert!((20..180).contains(&some), "{some}");
    }
}

#[test]
fn what_a_failed_sync_left_is_not_made_durable_by_another() {
    let write = |again: bool| {
        survive(b"content", move |disk, files| async move {
            let folder = files.open(Path::new("/"), Access::Read).await.unwrap();
            let file = files.open(path(), Access::New).await.unwrap();
            let other = files.open(path(), Access::Write).await.unwrap();
            files.sync_folder(&folder).await.unwrap();
            files.write_at(&file, b"content", 0).await.unwrap();
            disk.suffer(FAILING);
            assert!(files.sync_file(&file).await.is_err());
            disk.suffer(DiskFaults::default());
            if again {
                files.write_at(&file, b"content", 0).await.unwrap();
            }
            assert_eq!(
                files.sync_file(&file).await.ok(),
                Some(()),
                "a handle that reported the failure does not report it again"
            );
            assert!(files.sync_file(&other).await.is_err(), "a handle that was open reports the failure");
            assert!(files.sync_file(&other).await.is_ok(), "once");
        })
    };
    assert_eq!(write(true), 200);
    let some = write(false);
    assert!((20..180).contains(&some), "{some}");
}

#[test]
fn a_write_is_torn_between_sectors() {
    let (mut torn, content) = (0, vec![7; 1024]);
    for seed in 0..100 {
        let disk = Disk::new(seed);
        let written = content.clone();
        on(&disk, |files| async move {
            let folder = files.open(Path::new("/"), Access::Read).await.unwrap();
            let file = files.open(path(), Access::New).await.unwrap();
            files.sync_folder(&folder).await.unwrap();
            files.write_at(&file, &written, 0).await.unwrap();
        });
        disk.restart();
        let found = disk.files().remove("/file").unwrap();
        let sectors: Vec<bool> = found.chunks(512).map(|sector| sector == &content[..512]).collect();
        assert!(found.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])), "within one");
        torn += usize::from(sectors.iter().filter(|whole| **whole).count() == 1);
    }
    assert!(torn > 10, "{torn}");
}

#[test]
fn locks_end_with_their_process() {
    let disk = Disk::new(1);
    let second = disk.clone();
    on(&disk, |files| async move {
        let (mine, again) =
            (files.open(path(), Access::Either).await.unwrap(), files.open(path(), Access::Either).await.unwrap());
        assert!(files.try_lock(&mine).await.unwrap());
        assert!(!files.try_lock(&again).await.unwrap());
        drop(mine);
        assert!(files.try_lock(&again).await.unwrap());
        std::mem::forget(again);
        second.restart();
    });
    on(&disk, |files| async move {
        let file = files.open(path(), Access::Either).await.unwrap();
        assert!(files.try_lock(&file).await.unwrap());
    });
}

/// Its locks are released, so nothing that it had under way may still happen.
#[test]
fn the_death_of_a_process_ends_its_other_calls() {
    let disk = Disk::new(1);
    let setup = Setup { seed: 1, horizon: Instant::from_nanos(1 << 40), mode: Mode::EveryOperation, stores: vec![] };
    let went_on = Rc::new(Cell::new(false));
    let (dying, told) = (disk.clone(), Rc::clone(&went_on));
    Simulation::new(setup).run([(Instant::ZERO, move |env| {
        let files = dying.process(env);
        async move {
            dying.suffer(DiskFaults { failed_sync: 0.0, death: 1.0, ..FAILING });
            let mut first = Box::pin(files.open(Path::new("/a"), Access::New));
            std::future::poll_fn(|context| {
                assert!(first.as_mut().poll(context).is_pending());
                if files.dead.get() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
            dying.suffer(DiskFaults::default());
            let _ = files.open(Path::new("/b"), Access::New).await;
            told.set(true);
        }
    })]);
    assert!(!went_on.get());
    assert!(disk.files().is_empty());
}
