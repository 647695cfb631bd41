//! Tables of plans: each line is a problem, the machines that it is for, and their plan. Fields are
//! separated by tabs.
//!
//! The lines were recorded from runs. A line that has to change says which problems take another
//! path.

use crate::machine::Machine;
use std::fmt::Debug;
use std::str::FromStr;

/// `2x3x9`; `-` is none.
pub(crate) fn sizes<T: FromStr<Err: Debug>>(text: &str) -> Vec<T> {
    let one = |n: &str| n.parse().expect("a number");
    if text == "-" { Vec::new() } else { text.split('x').map(one).collect() }
}

/// `avx2:1,2,8 avx512:1`: names, each with numbers of threads.
fn machines(text: &str) -> Vec<Machine> {
    let of = |name: &str, threads: &str| {
        let threads = threads.parse().expect("a number of threads");
        match name {
            "avx2" => Machine::avx2(threads),
            "avx512" => Machine::avx512(threads),
            "avx512_bf16" => Machine::avx512_bf16(threads),
            "amx" => Machine::amx(threads),
            _ => panic!("no machine is called {name}"),
        }
    };
    let one = |text: &str| {
        let (name, threads) = text.split_once(':').expect("name:threads");
        threads.split(',').map(|threads| of(name, threads)).collect::<Vec<_>>()
    };
    text.split(' ').flat_map(one).collect()
}

/// Compares all plans of a table with those that `plan` makes of a line's first fields.
pub(crate) fn check(table: &str, plan: impl Fn(&[&str], &Machine) -> String) {
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split('\t').collect();
        let [problem @ .., on, expected] = &fields[..] else { panic!("too few fields: {line}") };
        for machine in machines(on) {
            let plan = plan(problem, &machine);
            if plan != *expected {
                wrong.push(format!("{line}\n  with {} threads: {plan}", machine.threads));
            }
        }
    }
    assert!(wrong.is_empty(), "{} plans differ:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}
