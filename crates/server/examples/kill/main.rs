//! Is a commit that was acknowledged ever lost, or done twice, when servers are killed?
//!
//! Several servers (`glidepath serve`, each a process) run on one store. Clients commit to them as Iceberg's client for
//! Java does: each request has an `Idempotency-Key`, and is sent again with it, to any server, until its outcome is
//! known; after 409 the client deletes the files that it wrote. Meanwhile servers are killed with SIGKILL at random
//! moments and started again. At the end all are killed, and one new server is asked what is there (`verify.rs`).
//!
//! What clients do is in `work.rs`, what can be wrong on the way in `client.rs`. `cargo run --example kill` without
//! arguments lists the options. The moments of kills and requests differ from run to run, also with the same seed: the
//! processes are real.

#![allow(clippy::disallowed_methods, reason = "processes are killed in real time")]

mod book;
mod client;
mod files;
mod fleet;
mod luck;
mod options;
mod verify;
mod work;

use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{LocalSet, spawn_local};

use client::Client;
use fleet::Fleet;
use luck::Luck;
use options::Options;
use work::Work;

type Anyhow<T> = Result<T, Box<dyn Error>>;

fn main() -> Anyhow<()> {
    let Some(options) = Options::of(std::env::args().skip(1))? else {
        println!("{}", options::USAGE);
        return Ok(());
    };
    // The client speaks plain HTTP, and still asks for a library for TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(options))
}

async fn run(options: Options) -> Anyhow<()> {
    let fleet = Rc::new(Fleet::start(&options)?);
    let client = Client::new(fleet.addresses(), options.seed)?;
    let work = Work::new(client, &options)?;
    let began = Instant::now();
    let killing = spawn_local(kill(Rc::clone(&fleet), Rc::clone(&work), options.clone()));
    let telling = spawn_local(tell(Rc::clone(&work), began));
    let worked = Work::run(&work, &options).await;
    killing.abort();
    telling.abort();
    let _ = (killing.await, telling.await);
    let took = began.elapsed();
    fleet.kill_all();
    let mut problems = work.book.problems();
    problems.extend(fleet.surprises());
    if let Err(error) = worked {
        problems.push(format!("the run was cut short: {error}"));
    }
    println!("{}", work.summary(took, fleet.kills()));
    // What is there is what a server finds that saw none of it.
    let last = Fleet::start(&Options { servers: 1, ..options.clone() })?;
    let reader = Client::new(last.addresses(), options.seed)?;
    let found = verify::verify(&reader, &work).await;
    last.kill_all();
    problems.extend(last.surprises());
    match found {
        Ok((found, wrong)) => {
            println!("{found}");
            problems.extend(wrong);
        }
        Err(error) => problems.push(format!("the end could not be verified: {error}")),
    }
    for problem in problems.iter().take(30) {
        println!("PROBLEM {problem}");
    }
    let words = format!("{} problems; logs of the servers are in {}", problems.len(), options.logs.display());
    if problems.is_empty() { Ok(()) } else { Err(words.into()) }
}

/// Kills servers and starts them again, for as long as the run lasts.
async fn kill(fleet: Rc<Fleet>, work: Rc<Work>, options: Options) {
    let luck = Luck::new(options.seed ^ 0x5151);
    loop {
        let span = options.kill_every_ms;
        sleep_ms(span / 4 + luck.below(span * 3 / 2)).await;
        // Sometimes all at once, as when the power fails.
        let victims = if luck.one_in(8) { fleet.all() } else { vec![luck.below(fleet.count() as u64) as usize] };
        for victim in &victims {
            fleet.kill(*victim);
        }
        sleep_ms(luck.below(300)).await;
        for victim in victims {
            if let Err(error) = fleet.start_again(victim) {
                work.book.wrong(format!("a server could not be started again: {error}"));
            }
        }
    }
}

async fn tell(work: Rc<Work>, began: Instant) {
    loop {
        tokio::time::sleep(Duration::from_secs(15)).await;
        eprintln!("{:.0} s: {} acknowledged", began.elapsed().as_secs_f64(), work.book.acknowledged());
    }
}

async fn sleep_ms(span: u64) {
    tokio::time::sleep(Duration::from_millis(span)).await;
}
