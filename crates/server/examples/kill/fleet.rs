//! The servers: processes that are killed and started again at the same address.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::Anyhow;
use crate::options::Options;

pub(crate) struct Fleet {
    options: Options,
    servers: RefCell<Vec<Server>>,
    kills: Cell<u64>,
    surprises: RefCell<Vec<String>>,
}

struct Server {
    address: String,
    log: PathBuf,
    child: Option<Child>,
}

impl Fleet {
    /// Starts the servers. They may not listen yet.
    pub(crate) fn start(options: &Options) -> Anyhow<Self> {
        std::fs::create_dir_all(&options.logs)?;
        let fleet = Self {
            options: options.clone(),
            servers: RefCell::default(),
            kills: Cell::default(),
            surprises: RefCell::default(),
        };
        // All at once, so that no two get the same. Below the ports of outgoing connections: while a server is down,
        // one of those may take its port, also a client's that connects to it.
        let ports = (0..12_000).map(|step| 20_000 + (std::process::id() as u16 % 12_000 + step) % 12_000);
        let free = ports.filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
        let listeners: Vec<_> = free.take(usize::try_from(options.servers)?).collect();
        for listener in &listeners {
            let address = listener.local_addr()?.to_string();
            let log = options.logs.join(format!("server-{}.log", address.replace(':', "-")));
            fleet.servers.borrow_mut().push(Server { address, log, child: None });
        }
        drop(listeners);
        for number in fleet.all() {
            fleet.start_again(number)?;
        }
        Ok(fleet)
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.servers.borrow().iter().map(|server| server.address.clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.borrow().len()
    }

    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.count()).collect()
    }

    pub(crate) fn kills(&self) -> u64 {
        self.kills.get()
    }

    /// Kills a server with SIGKILL.
    pub(crate) fn kill(&self, number: usize) {
        let mut servers = self.servers.borrow_mut();
        let Some(server) = servers.get_mut(number) else { return };
        let Some(mut child) = server.child.take() else { return };
        if let Ok(Some(status)) = child.try_wait() {
            let words =
                format!("the server at {} ended by itself: {status}; see {}", server.address, server.log.display());
            self.surprises.borrow_mut().push(words);
            return;
        }
        if child.kill().and_then(|()| child.wait()).is_ok() {
            self.kills.set(self.kills.get() + 1);
        }
    }

    pub(crate) fn kill_all(&self) {
        for number in self.all() {
            self.kill(number);
        }
    }

    pub(crate) fn start_again(&self, number: usize) -> Anyhow<()> {
        let mut servers = self.servers.borrow_mut();
        let server = servers.get_mut(number).ok_or("there is no such server")?;
        let Options { program, store, warehouse, protocol, .. } = &self.options;
        let log = File::options().create(true).append(true).open(&server.log)?;
        let child = Command::new(program)
            .args(["serve", store, "--warehouse", warehouse, "--protocol", protocol, "--listen", &server.address])
            .args(["--log-level", "warn"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        server.child = Some(child);
        Ok(())
    }

    /// What servers did that they must not do: end, or panic.
    pub(crate) fn surprises(&self) -> Vec<String> {
        let mut all = self.surprises.borrow().clone();
        for server in self.servers.borrow().iter() {
            let said = std::fs::read_to_string(&server.log).unwrap_or_default();
            let panics: Vec<_> = said.lines().filter(|line| line.contains("panicked")).collect();
            all.extend(panics.iter().take(3).map(|line| format!("{}: {line}", server.log.display())));
        }
        all
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.kill_all();
    }
}
