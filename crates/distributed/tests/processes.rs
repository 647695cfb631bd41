//! Groups of processes: this program starts itself, once for each worker.

use elinvar_core::{Error, Result};
use elinvar_distributed::{Group, Runs, TreeSum};
use sha2::{Digest, Sha256};
use std::env;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a worker does, by this variable; without it, this process is no worker.
const ROLE: &str = "WORKER_DOES";

/// What a worker of this test does: not a test of its own.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    let done = Group::init().and_then(|g| works(&role, &g));
    match done {
        Ok(said) => println!("SAID {said}"),
        Err(e) => {
            println!("ERROR {e}");
            std::process::exit(1);
        }
    }
}

fn works(role: &str, g: &Group) -> Result<String> {
    let add = |a: Vec<f32>, b: Vec<f32>| Ok(a.iter().zip(&b).map(|(a, b)| a + b).collect());
    match role {
        "sum" => {
            let (n, runs) = (50_000, Runs::new(8, g.size())?);
            let mut sums = TreeSum::new(runs.of(g.rank()).start);
            for i in runs.of(g.rank()) {
                let x = (0..n).map(|k| 1.0 / (1.0 + (i * n + k) as f32)).collect();
                sums.push(x, add)?;
            }
            let y = g.all_reduce_shards(runs, sums, n)?;
            let hash = y.iter().fold(0u64, |h, x| h.rotate_left(5) ^ u64::from(x.to_bits()));
            g.barrier()?;
            Ok(format!("{hash:016x}"))
        }
        "wait" => {
            // Until one of them is gone.
            loop {
                g.all_reduce_slice(&[1.0f32; 10_000])?;
            }
        }
        "data" => {
            let mine = if g.rank() == 1 { "b" } else { "a" };
            g.agree("data", mine.as_bytes()).map(|()| String::new())
        }
        "leave" => match g.rank() {
            0 => Err(Error::argument("no more")),
            _ => g.barrier().map(|()| String::new()),
        },
        role => Err(Error::argument(format!("{role}?"))),
    }
}

fn command(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "worker", "--nocapture"]).env(ROLE, role).env("ELINVAR_TIME_LIMIT", "30");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    command
}

/// A port that was free just now.
fn port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// Starts workers that meet on this machine; `change` may set more variables for each.
fn start(role: &str, workers: usize, change: impl Fn(usize, &mut Command)) -> Vec<Child> {
    let port = port();
    let one = |rank: usize| {
        let mut c = command(role);
        c.env("RANK", rank.to_string()).env("WORLD_SIZE", workers.to_string());
        c.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
        change(rank, &mut c);
        c.spawn().unwrap()
    };
    (0..workers).map(one).collect()
}

/// What each said, by its exit.
fn ended(children: Vec<Child>) -> Vec<(Option<i32>, String)> {
    children.into_iter().map(|c| told(&c.wait_with_output().unwrap())).collect()
}

fn told(o: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&o.stdout);
    let line = text.lines().find(|l| l.contains("SAID ") || l.contains("ERROR "));
    let line = line.map_or_else(|| text.to_string(), |l| l[l.find(['S', 'E']).unwrap_or(0)..].into());
    (o.status.code(), line)
}

#[test]
fn one_hash_for_any_number_of_processes() {
    let mut hashes = Vec::new();
    for workers in [1, 2, 3, 4] {
        for (code, said) in ended(start("sum", workers, |_, _| {})) {
            assert_eq!(code, Some(0), "{said}");
            hashes.push(said);
        }
    }
    assert!(hashes.iter().all(|h| *h == hashes[0] && h.starts_with("SAID ")), "{hashes:?}");
}

#[test]
fn a_worker_that_is_killed_ends_the_others() {
    for victim in [0, 2] {
        let mut children = start("wait", 3, |_, _| {});
        thread::sleep(Duration::from_millis(700));
        children[victim].kill().unwrap();
        let start = Instant::now();
        for (rank, (code, said)) in ended(children).into_iter().enumerate() {
            if rank != victim {
                assert_eq!(code, Some(1), "{said}");
                assert!(said.contains("has ended in the middle of the run"), "{said}");
            }
        }
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn workers_that_do_not_belong_together_are_told() {
    for (code, said) in ended(start("data", 3, |_, _| {})) {
        assert_eq!(code, Some(1));
        assert!(said.contains("worker 1 has another data than worker 0"), "{said}");
    }
    let left = ended(start("leave", 2, |_, _| {}));
    assert!(left[0].1.contains("no more") && left[1].1.contains("worker 0 has"), "{left:?}");
    // Other numbers of workers, another job, the same rank twice, one that does not come.
    let all = ended(start("sum", 2, |rank, c| {
        if rank == 1 {
            c.env("WORLD_SIZE", "3");
        }
    }));
    assert!(all[0].1.contains("worker 1 was told of 3 workers, and this one of 2"), "{all:?}");
    assert_eq!(all[1].0, Some(1));
    let all = ended(start("sum", 2, |rank, c| {
        c.env("ELINVAR_JOB", rank.to_string());
    }));
    assert!(all[0].1.contains("has another ELINVAR_JOB"), "{all:?}");
    let all = ended(start("sum", 3, |rank, c| {
        if rank == 2 {
            c.env("RANK", "1");
        }
    }));
    assert!(all[0].1.contains("worker 1 has come twice"), "{all:?}");
    let all = ended(start("sum", 2, |rank, c| {
        c.env("ELINVAR_TIME_LIMIT", "1");
        if rank == 1 {
            c.env("RANK", "0").env("WORLD_SIZE", "1");
        }
    }));
    assert!(all[0].1.contains("have not come within the time limit: 1"), "{all:?}");
}

/// A program that speaks as worker 1 of two, and then sends what it likes.
fn impostor(port: &str, job: &str, sends: &[u8]) {
    let key = Sha256::digest(format!("elinvar {}\n{job}", env!("CARGO_PKG_VERSION")));
    let begin = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(format!("127.0.0.1:{port}")) {
            Ok(stream) => break stream,
            Err(e) => assert!(begin.elapsed() < Duration::from_secs(20), "{e}"),
        }
        thread::sleep(Duration::from_millis(20));
    };
    let hello = [&b"elinvar1"[..], &1u32.to_le_bytes(), &2u32.to_le_bytes(), &[0, 0], &key].concat();
    stream.write_all(&hello).unwrap();
    // Where the workers are.
    stream.read_exact(&mut [0; 2 * 19]).unwrap();
    stream.write_all(sends).unwrap();
}

#[test]
fn messages_that_are_no_messages_are_told() {
    let message = |length: u64, bytes: &[u8]| [&length.to_le_bytes()[..], bytes].concat();
    let rows = [
        (message(1000, &[1; 10]), "worker 1 has ended in the middle of the run"),
        (message(10, &[1; 10]), "a message of 10 bytes, which was cut short"),
        (message(100, &[1; 100]), "a message of another program or of another version"),
        (message(u64::MAX / 2, &[1; 10]), "worker 1 has ended in the middle of the run"),
        (vec![7; 3], "worker 1 has ended in the middle of the run"),
        (vec![], "worker 1 has ended in the middle of the run"),
    ];
    for (sends, sentence) in rows {
        let port = port();
        let mut c = command("sum");
        c.env("RANK", "0").env("WORLD_SIZE", "2").env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
        let worker = c.env("ELINVAR_JOB", "x").spawn().unwrap();
        // A stranger in between is let go.
        let begin = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{port}")).and_then(|mut s| s.write_all(b"GET /")).is_err()
        {
            assert!(begin.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(20));
        }
        impostor(&port, "x", &sends);
        let (code, said) = ended(vec![worker]).remove(0);
        assert!(code == Some(1) && said.contains(sentence), "{sentence}: {said}");
    }
}

/// One that hangs is given up when it has given no sign of life, one that is slow at the limit.
#[cfg(target_os = "linux")]
#[test]
fn a_worker_that_hangs_is_given_up() {
    let children = start("wait", 3, |_, c| {
        c.env("ELINVAR_TIME_LIMIT", "3");
    });
    thread::sleep(Duration::from_millis(700));
    let victim = children[1].id().to_string();
    assert!(Command::new("kill").args(["-STOP", &victim]).status().unwrap().success());
    let begin = Instant::now();
    let mut children = children.into_iter();
    let (first, mut stopped, last) =
        (children.next().unwrap(), children.next().unwrap(), children.next().unwrap());
    for (code, said) in ended(vec![first, last]) {
        assert!(code == Some(1) && said.contains("distributed: worker "), "{said}");
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    stopped.kill().unwrap();
    stopped.wait().unwrap();
}

/// The same hash under an MPI library, if there is one with its launcher.
#[test]
fn one_hash_under_mpi() {
    let want = ended(start("sum", 1, |_, _| {})).remove(0).1;
    let launcher = env::var("MPIRUN").unwrap_or_else(|_| "mpirun".into());
    let found = Command::new(&launcher).arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        println!("SKIPPED: no {launcher}; Debian's package openmpi-bin has one");
        return;
    }
    for workers in ["1", "2"] {
        let worker = command("sum");
        let mut mpi = Command::new(&launcher);
        mpi.args(["-n", workers]).arg(worker.get_program()).args(worker.get_args());
        mpi.env(ROLE, "sum").env("ELINVAR_TIME_LIMIT", "60").stdin(Stdio::null());
        mpi.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let o = mpi.output().unwrap();
        let text = String::from_utf8_lossy(&o.stdout).into_owned();
        let said: Vec<&str> = text.lines().filter_map(|l| l.find("SAID ").map(|at| &l[at..])).collect();
        assert!(o.status.success(), "{text}{}", String::from_utf8_lossy(&o.stderr));
        assert_eq!(said, vec![want.as_str(); workers.parse().unwrap()], "{text}");
    }
}
