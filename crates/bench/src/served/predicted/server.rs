//! The process of the server.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use glidepath_env::Env;
use glidepath_protocols::Outcome;
use glidepath_protocols::group::{Committer, Group, Leader, Loader, Loads, RetryPolicy};
use glidepath_protocols::registry::{AnyCatalog, Creation, Settings as Limits};
use glidepath_service::{
    Identifier, Loaded, Namespace, NewTable, Service, ServiceError, Settings, TableCommit, Warehouse,
};
use glidepath_sim::SimEnv;
use glidepath_sim::{Envelope, Host};
use iceberg::spec::{NestedField, PrimitiveType, Schema, TableMetadata, Type};

use super::files::Made;
use super::thread::Thread;
use super::{BASE, Costs, HOT, NAMESPACE, NotPredicted, STORE, Scene, Workload, identifier};
use crate::counted::CountedWorld;

/// What a client asks.
pub(super) enum Ask {
    Load(Identifier),
    Commit(Identifier, TableCommit),
}

pub(super) type Answer = Result<Loaded<TableMetadata>, ServiceError>;
type Task = Pin<Box<dyn Future<Output = ()>>>;
type World = CountedWorld<SimEnv>;
type Served = Service<World, AnyCatalog<World>, Made>;

/// The catalog's prefix in the store.
const PREFIX: &str = "catalog/";

/// Lives until all clients have ended. The first server creates the catalog and the tables.
pub(super) async fn live(env: SimEnv, scene: Rc<Scene>, number: usize) {
    let files = CountedWorld::new(env.clone(), env.store(STORE), scene.world.added_latency);
    let world = files.clone().on(scene.processors.with_requests_of(scene.world.costs.write));
    if number == 0 {
        let catalog = scene.world.protocol.open(world.clone(), world.clone(), PREFIX);
        let created = catalog.create_here(Creation::default()).await;
        if !matches!(created, Outcome::Committed(_)) {
            return scene.fail(NotPredicted::Begin(format!("{created:?}")));
        }
    }
    let (service, mut background) = service(&env, (&world, files), &scene);
    if number == 0 {
        let mut beginning = std::pin::pin!(begin(&service, &scene));
        // The tasks of the service run beside it.
        let begun = poll_fn(|context| {
            background.retain_mut(|task| task.as_mut().poll(context).is_pending());
            beginning.as_mut().poll(context)
        })
        .await;
        if let Err(words) = begun {
            return scene.fail(NotPredicted::Begin(words));
        }
    }
    scene.counters.borrow_mut().push(world.counters_shared());
    scene.counts.borrow_mut().push(service.counts());
    serve(&env, &service, (&scene, number), &mut background).await;
    if number == 0
        && scene.cell.workload.appends()
        && let Ok(hot) = finish(service.load_table(&identifier(HOT)), &mut background).await
    {
        scene.history.replace(history(&hot.metadata));
    }
}

/// A service with the tasks that commit and load for all, as live.
fn service(env: &SimEnv, (world, files): (&World, World), scene: &Scene) -> (Served, Vec<Task>) {
    let knowledge = scene.world.protocol.shared_state(PREFIX, &Limits::default());
    let open = || knowledge.open(world.clone(), world.clone());
    let (group, loads, mut tasks) = (Group::default(), Loads::new(), Vec::<Task>::new());
    if let Ok(leader) = Leader::new(world.clone(), open(), &group, RetryPolicy::default()) {
        tasks.push(Box::pin(leader.lead()));
    }
    if let Ok(loader) = Loader::new(open(), &loads) {
        tasks.push(Box::pin(loader.serve()));
    }
    let committer = Committer::mixed(world.clone(), open(), group, RetryPolicy::default());
    let files = Made {
        env: env.clone(),
        files: Warehouse::new(files, BASE),
        processors: scene.processors.clone(),
        costs: scene.world.costs,
        lists: Thread::on(&scene.processors),
    };
    let settings = Settings { priority: scene.world.priority, ..Settings::of(&format!("{BASE}/tables")) };
    (Service::new(world.clone(), committer, loads, files, settings), tasks)
}

/// Creates the tables of the cell.
async fn begin(service: &Served, scene: &Scene) -> Result<(), String> {
    let words = |error: ServiceError| error.to_string();
    service.prepare().await.map_err(words)?;
    let namespace = Namespace { parts: vec![NAMESPACE.to_owned()], properties: Default::default() };
    service.create_namespace(&namespace, None).await.map_err(words)?;
    if scene.cell.workload != Workload::Own {
        service.create_table(new_table(HOT)?, None).await.map_err(words)?;
        return Ok(());
    }
    for number in 0..scene.cell.connections {
        service.create_table(new_table(&own(number))?, None).await.map_err(words)?;
    }
    Ok(())
}

/// The table of a connection.
pub(super) fn own(number: u32) -> String {
    format!("t{number}")
}

fn new_table(name: &str) -> Result<NewTable, String> {
    let id = NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long));
    let schema = Schema::builder().with_fields([id.into()]).build();
    let schema = schema.map_err(|error| error.to_string())?;
    let properties = [("glidepath.append-rebase", "true"), ("write.metadata.previous-versions-max", "10")];
    Ok(NewTable {
        identifier: identifier(name),
        schema,
        location: None,
        partition_spec: None,
        sort_order: None,
        properties: properties.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    })
}

async fn serve(env: &SimEnv, service: &Served, (scene, number): (&Rc<Scene>, usize), background: &mut Vec<Task>) {
    let host: &Host<Ask, Answer> = &scene.hosts[number];
    host.rise();
    let mut requests = Vec::<Task>::new();
    poll_fn(|context| {
        loop {
            let fresh = host.take(context);
            let more = !fresh.is_empty();
            requests.extend(fresh.into_iter().map(|envelope| -> Task {
                Box::pin(handle(env.clone(), service.clone(), Rc::clone(scene), envelope))
            }));
            for tasks in [&mut *background, &mut requests] {
                tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
            }
            if !more {
                break;
            }
        }
        if scene.is_over() && requests.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn finish<T>(work: impl Future<Output = T>, background: &mut Vec<Task>) -> T {
    let mut work = std::pin::pin!(work);
    poll_fn(|context| {
        background.retain_mut(|task| task.as_mut().poll(context).is_pending());
        work.as_mut().poll(context)
    })
    .await
}

async fn handle(env: SimEnv, service: Served, scene: Rc<Scene>, envelope: Envelope<Ask, Answer>) {
    let Envelope { ask, due, slot } = envelope;
    let costs = scene.world.costs;
    env.sleep_until(due).await;
    scene.processors.spend(&env, costs.server_request).await;
    let answer = match ask {
        Ask::Load(table) => service.load_table(&table).await,
        Ask::Commit(table, commit) => service.commit_table(&table, commit).await,
    };
    if let Ok(loaded) = &answer
        && scene.cell.workload != Workload::LoadUnchanged
    {
        scene.processors.spend(&env, Costs::of_bytes(costs.answer_kib, loaded.json.len())).await;
    }
    if let Some(slot) = slot {
        slot.put(answer);
    }
}

/// The snapshots from the head of the table back to the first.
fn history(metadata: &TableMetadata) -> Vec<i64> {
    let mut found = Vec::new();
    let mut next = metadata.current_snapshot_id();
    while let Some(id) = next.filter(|_| found.len() <= metadata.snapshots().count()) {
        found.push(id);
        next = metadata.snapshot_by_id(id).and_then(|snapshot| snapshot.parent_snapshot_id());
    }
    found
}
