//! A machine that runs the PTX that the emitter writes, as NVIDIA's manual describes it ("PTX ISA", 9.7): text, parameters,
//! geometry, shared memory, barriers, shuffles. It knows the instructions that are emitted, and panics at any other.
//!
//! Threads of a workgroup run one after the other, each until it waits for others (`bar.sync`, `shfl.sync`) or ends; when
//! all wait at the same place, they go on.

use elinvar_kernel::interp::{Launch, Memory};
use elinvar_kernel::ir::Kernel;
use half::f16;
use std::collections::HashMap;

/// Addresses of buffers are apart by this: what is out of bounds of one is in none.
const APART: u64 = 1 << 40;

#[derive(Clone, Debug)]
enum Operand {
    /// A register: its place in the file of all registers.
    Register(usize),
    /// Bits.
    Number(u64),
    /// A label, a parameter, shared memory, or a special register.
    Name(String),
    /// An address in a register or of a name, plus bytes.
    Address(Box<Operand>, u64),
    /// Several registers.
    List(Vec<Operand>),
}

#[derive(Debug)]
struct Inst {
    /// Only if this register is 1 (or 0).
    guard: Option<(usize, bool)>,
    /// The parts of the name, between its dots.
    op: Vec<String>,
    operands: Vec<Operand>,
}

/// A program, parsed.
struct Program {
    insts: Vec<Inst>,
    labels: HashMap<String, usize>,
    registers: usize,
    /// Where each piece of shared memory begins, and how many bytes there are.
    shared: HashMap<String, u64>,
    shared_bytes: usize,
    group: [u32; 3],
}

fn parse(text: &str) -> Program {
    let mut p = Program {
        insts: Vec::new(),
        labels: HashMap::new(),
        registers: 0,
        shared: HashMap::new(),
        shared_bytes: 0,
        group: [1; 3],
    };
    let mut files: HashMap<String, usize> = HashMap::new();
    let body = text.split_once("{\n").expect("an entry has a body").1;
    let sizes = text.lines().find_map(|l| l.strip_prefix(".reqntid ")).expect("an entry says its group");
    for (to, n) in p.group.iter_mut().zip(sizes.split(", ")) {
        *to = n.parse().expect("a number");
    }
    for line in body.lines() {
        let line = line.trim().trim_end_matches(';');
        if line == "}" || line.is_empty() {
        } else if let Some(label) = line.strip_suffix(':') {
            p.labels.insert(label.to_string(), p.insts.len());
        } else if let Some(reg) = line.strip_prefix(".reg ") {
            let (_, rest) = reg.split_once(' ').expect("a type and a name");
            let (name, count) = rest.trim_end_matches('>').split_once('<').expect("a number of registers");
            files.insert(name.to_string(), p.registers);
            p.registers += count.parse::<usize>().expect("a number");
        } else if let Some(shared) = line.strip_prefix(".shared .align 16 .b8 ") {
            let (name, bytes) = shared.trim_end_matches(']').split_once('[').expect("a number of bytes");
            p.shared_bytes = p.shared_bytes.next_multiple_of(16);
            p.shared.insert(name.to_string(), p.shared_bytes as u64);
            p.shared_bytes += bytes.parse::<usize>().expect("a number");
        } else {
            p.insts.push(inst(line, &files));
        }
    }
    p
}

fn inst(line: &str, files: &HashMap<String, usize>) -> Inst {
    let (guard, line) = match line.strip_prefix('@') {
        Some(rest) => {
            let (reg, rest) = rest.split_once(' ').expect("an instruction after its guard");
            let (reg, wanted) = reg.strip_prefix('!').map_or((reg, true), |r| (r, false));
            let Operand::Register(r) = operand(reg, files) else { panic!("a guard is a register: {line}") };
            (Some((r, wanted)), rest)
        }
        None => (None, line),
    };
    let (op, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (mut operands, mut depth, mut from) = (Vec::new(), 0, 0);
    for (i, c) in rest.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                operands.push(operand(rest[from..i].trim(), files));
                from = i + 1;
            }
            _ => {}
        }
    }
    if !rest.is_empty() {
        operands.push(operand(rest[from..].trim(), files));
    }
    Inst { guard, op: op.split('.').map(str::to_string).collect(), operands }
}

fn operand(text: &str, files: &HashMap<String, usize>) -> Operand {
    if let Some(list) = text.strip_prefix('{') {
        return Operand::List(list.trim_end_matches('}').split(", ").map(|r| operand(r, files)).collect());
    }
    if let Some(address) = text.strip_prefix('[') {
        let (base, more) =
            address.trim_end_matches(']').split_once('+').unwrap_or((address.trim_end_matches(']'), "0"));
        return Operand::Address(Box::new(operand(base, files)), more.parse().expect("bytes"));
    }
    for (prefix, radix) in [("0f", 16), ("0d", 16), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return Operand::Number(u64::from_str_radix(digits, radix).expect("digits"));
        }
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return Operand::Number(text.parse().expect("a number"));
    }
    let split = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    match (files.get(&text[..split]), text[split..].parse::<usize>()) {
        (Some(first), Ok(n)) => Operand::Register(first + n),
        _ => Operand::Name(text.to_string()),
    }
}

/// A thread.
struct Thread {
    registers: Vec<u64>,
    /// The next instruction.
    at: usize,
    local: [u32; 3],
}

/// Runs a module on a launch.
pub fn run(k: &Kernel, text: &str, launch: &Launch, buffers: &mut [Memory]) {
    let program = parse(text);
    let mut memory: Vec<Vec<u8>> = buffers.iter().map(bytes).collect();
    let params: HashMap<String, u64> = (0..buffers.len())
        .map(|i| (format!("b{i}"), (i as u64 + 1) * APART))
        .chain(launch.params.iter().enumerate().map(|(i, p)| (format!("p{i}"), p.bits)))
        .collect();
    let [gx, gy, gz] = launch.groups;
    for z in 0..gz {
        for y in 0..gy {
            for x in 0..gx {
                let group = Group { p: &program, params: &params, id: [x, y, z], count: launch.groups };
                group.run(&mut memory);
            }
        }
    }
    for ((to, from), b) in buffers.iter_mut().zip(&memory).zip(&k.buffers) {
        let size = b.elem.size() as usize;
        for (cell, c) in to.cells.iter_mut().zip(from.chunks_exact(size)) {
            let mut all = [0; 8];
            all[..size].copy_from_slice(c);
            *cell = u64::from_le_bytes(all);
        }
    }
}

fn bytes(m: &Memory) -> Vec<u8> {
    let size = m.elem.size() as usize;
    m.cells.iter().flat_map(|c| c.to_le_bytes().into_iter().take(size)).collect()
}

struct Group<'a> {
    p: &'a Program,
    params: &'a HashMap<String, u64>,
    id: [u32; 3],
    count: [u32; 3],
}

impl Group<'_> {
    fn run(&self, memory: &mut [Vec<u8>]) {
        let [x, y, z] = self.p.group;
        let mut threads = Vec::new();
        for lz in 0..z {
            for ly in 0..y {
                for lx in 0..x {
                    let registers = vec![0xdead_beef_dead_beef; self.p.registers];
                    threads.push(Thread { registers, at: 0, local: [lx, ly, lz] });
                }
            }
        }
        let mut shared = vec![0xa5; self.p.shared_bytes];
        loop {
            for t in &mut threads {
                self.until_it_waits(t, memory, &mut shared);
            }
            let at = threads[0].at;
            assert!(threads.iter().all(|t| t.at == at), "threads wait at different places");
            let inst = &self.p.insts[at];
            match inst.op[0].as_str() {
                "ret" => return,
                "bar" => {}
                _ => shuffle(inst, &mut threads),
            }
            threads.iter_mut().for_each(|t| t.at += 1);
        }
    }

    fn until_it_waits(&self, t: &mut Thread, memory: &mut [Vec<u8>], shared: &mut [u8]) {
        loop {
            let inst = &self.p.insts[t.at];
            if matches!(inst.op[0].as_str(), "ret" | "bar" | "shfl") {
                return;
            }
            t.at += 1;
            if inst.guard.is_some_and(|(r, wanted)| (t.registers[r] != 0) != wanted) {
                continue;
            }
            self.one(inst, t, memory, shared);
        }
    }

    fn value(&self, t: &Thread, o: &Operand) -> u64 {
        match o {
            Operand::Register(r) => t.registers[*r],
            Operand::Number(n) => *n,
            Operand::Address(base, more) => self.value(t, base).wrapping_add(*more),
            Operand::Name(name) => match self.p.shared.get(name) {
                Some(&at) => at,
                None => u64::from(self.special(t, name)),
            },
            Operand::List(_) => panic!("a list is no number"),
        }
    }
    fn special(&self, t: &Thread, name: &str) -> u32 {
        let (what, axis) = name.split_once('.').unwrap_or_else(|| panic!("what is {name}?"));
        let axis = ["x", "y", "z"].iter().position(|a| *a == axis).expect("an axis");
        match what {
            "%tid" => t.local[axis],
            "%ctaid" => self.id[axis],
            "%nctaid" => self.count[axis],
            _ => panic!("what is {name}?"),
        }
    }

    fn one(&self, inst: &Inst, t: &mut Thread, memory: &mut [Vec<u8>], shared: &mut [u8]) {
        let op: Vec<&str> = inst.op.iter().map(String::as_str).collect();
        let v = |i: usize| self.value(t, &inst.operands[i]);
        let ty = *op.last().expect("an instruction has a name");
        let result = match op[..] {
            ["bra"] => {
                let Operand::Name(label) = &inst.operands[0] else { panic!("a branch goes to a label") };
                t.at = self.p.labels[label];
                return;
            }
            ["ld", "param", _] => {
                let Operand::Address(name, 0) = &inst.operands[1] else { panic!("a parameter has a name") };
                let Operand::Name(name) = &**name else { panic!("a parameter has a name") };
                self.params[name]
            }
            ["ld", ref space @ .., _] => {
                let (place, at) = place(v(1), space[0], memory, shared);
                let size = size(ty);
                let mut at = at;
                for to in registers(&inst.operands[0]) {
                    assert!(at.is_multiple_of(size), "an address is a multiple of the size");
                    let mut all = [0; 8];
                    all[..size].copy_from_slice(&place[at..at + size]);
                    t.registers[to] = u64::from_le_bytes(all);
                    at += size;
                }
                return;
            }
            ["st", ref space @ .., _] => {
                let all: Vec<u64> = registers(&inst.operands[1]).iter().map(|&r| t.registers[r]).collect();
                let (place, at) = place(v(0), space[0], memory, shared);
                let size = size(ty);
                assert!(at.is_multiple_of(size * all.len()), "a vector begins at a multiple of its size");
                for (i, v) in all.iter().enumerate() {
                    place[at + i * size..][..size].copy_from_slice(&v.to_le_bytes()[..size]);
                }
                return;
            }
            ["atom", space, what, _] => {
                let new = v(2) as u32;
                let (place, at) = place(v(1), space, memory, shared);
                let old = u32::from_le_bytes(place[at..at + 4].try_into().expect("four bytes"));
                let next = match (what, ty) {
                    ("add", _) => old.wrapping_add(new),
                    ("min", "s32") => (old as i32).min(new as i32) as u32,
                    ("min", _) => old.min(new),
                    ("max", "s32") => (old as i32).max(new as i32) as u32,
                    ("max", _) => old.max(new),
                    ("and", _) => old & new,
                    ("or", _) => old | new,
                    ("xor", _) => old ^ new,
                    ("exch", _) => new,
                    _ => panic!("an atomic {what}"),
                };
                place[at..at + 4].copy_from_slice(&next.to_le_bytes());
                u64::from(old)
            }
            ["cvta", ..] => v(1),
            ["mov", "b64"] if matches!(inst.operands[0], Operand::List(_)) => {
                let (all, to) = (v(1), registers(&inst.operands[0]));
                t.registers[to[0]] = all & 0xffff_ffff;
                t.registers[to[1]] = all >> 32;
                return;
            }
            ["mov", "b64"] if matches!(inst.operands[1], Operand::List(_)) => {
                let from = registers(&inst.operands[1]);
                t.registers[from[0]] & 0xffff_ffff | t.registers[from[1]] << 32
            }
            ["mov", _] => v(1),
            ["cvt", ref how @ .., to, from] => convert(how.first().copied(), to, from, v(1)),
            ["setp", how, _] => u64::from(compare(how, ty, v(1), v(2))),
            ["selp", _] => {
                if v(3) != 0 {
                    v(1)
                } else {
                    v(2)
                }
            }
            _ => {
                let all: Vec<u64> = (1..inst.operands.len()).map(v).collect();
                compute(&op, ty, &all)
            }
        };
        let Operand::Register(to) = inst.operands[0] else { panic!("a result is a register: {inst:?}") };
        t.registers[to] = result;
    }
}

fn registers(o: &Operand) -> Vec<usize> {
    match o {
        Operand::Register(r) => vec![*r],
        Operand::List(all) => all.iter().flat_map(registers).collect(),
        _ => panic!("registers, not {o:?}"),
    }
}

/// The memory behind an address, and where in it.
fn place<'m>(
    address: u64,
    space: &str,
    memory: &'m mut [Vec<u8>],
    shared: &'m mut [u8],
) -> (&'m mut [u8], usize) {
    if space == "shared" {
        return (shared, address as u32 as usize);
    }
    let i = (address / APART) as usize;
    (&mut memory[i - 1], (address % APART) as usize)
}

fn size(ty: &str) -> usize {
    ty[1..].parse::<usize>().expect("a type ends in its bits") / 8
}

fn wide(ty: &str) -> bool {
    ty.ends_with("64")
}
fn f(ty: &str, v: u64) -> f64 {
    if wide(ty) { f64::from_bits(v) } else { f64::from(f32::from_bits(v as u32)) }
}

fn compare(how: &str, ty: &str, a: u64, b: u64) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match &ty[..1] {
        "f" => f(ty, a).partial_cmp(&f(ty, b)),
        "s" if wide(ty) => Some((a as i64).cmp(&(b as i64))),
        "s" => Some((a as u32 as i32).cmp(&(b as u32 as i32))),
        _ if wide(ty) => Some(a.cmp(&b)),
        _ => Some((a as u32).cmp(&(b as u32))),
    };
    match how {
        "nan" => order.is_none(),
        "eq" => order == Some(Equal),
        "ne" | "neu" => order != Some(Equal),
        "lt" => order == Some(Less),
        "le" => matches!(order, Some(Less | Equal)),
        "gt" => order == Some(Greater),
        "ge" => matches!(order, Some(Greater | Equal)),
        _ => panic!("a comparison {how}"),
    }
}

fn convert(how: Option<&str>, to: &str, from: &str, v: u64) -> u64 {
    let whole = |x: f64| match how {
        Some("rmi") => x.floor(),
        Some("rpi") => x.ceil(),
        Some("rzi") => x.trunc(),
        Some("rni") => x.round_ties_even(),
        _ => panic!("a conversion {how:?}"),
    };
    match (to, from) {
        ("f16", "f32") => u64::from(f16::from_f32(f32::from_bits(v as u32)).to_bits()),
        ("f32", "f16") => u64::from(f16::from_bits(v as u16).to_f32().to_bits()),
        ("f64", "f32") => f64::from(f32::from_bits(v as u32)).to_bits(),
        ("f32", "f64") => u64::from((f64::from_bits(v) as f32).to_bits()),
        ("f32", "f32") => u64::from((whole(f(from, v)) as f32).to_bits()),
        ("f64", "f64") => whole(f(from, v)).to_bits(),
        (_, "f32" | "f64") => {
            let x = whole(f(from, v));
            // Only numbers that fit come here from kernels that look at the result.
            match to {
                "s32" => u64::from(x as i32 as u32),
                "u32" => u64::from(x as u32),
                "s64" => x as i64 as u64,
                _ => x as u64,
            }
        }
        ("f32", "s32") => u64::from((v as u32 as i32 as f32).to_bits()),
        ("f32", "u32") => u64::from((v as u32 as f32).to_bits()),
        ("f32", "s64") => u64::from((v as i64 as f32).to_bits()),
        ("f32", _) => u64::from((v as f32).to_bits()),
        ("f64", "s32") => f64::from(v as u32 as i32).to_bits(),
        ("f64", "u32") => f64::from(v as u32).to_bits(),
        ("f64", "s64") => (v as i64 as f64).to_bits(),
        ("f64", _) => (v as f64).to_bits(),
        ("s64" | "u64", "s32") => i64::from(v as u32 as i32) as u64,
        ("s64" | "u64", _) => v & 0xffff_ffff,
        (_, "u16") | ("u16", _) => v & 0xffff,
        _ => v & 0xffff_ffff,
    }
}

fn compute(op: &[&str], ty: &str, v: &[u64]) -> u64 {
    let float = |f64_: &dyn Fn(&[f64]) -> f64, f32_: &dyn Fn(&[f32]) -> f32| -> u64 {
        if wide(ty) {
            f64_(&v.iter().map(|&x| f64::from_bits(x)).collect::<Vec<_>>()).to_bits()
        } else {
            u64::from(f32_(&v.iter().map(|&x| f32::from_bits(x as u32)).collect::<Vec<_>>()).to_bits())
        }
    };
    if ty.starts_with('f') {
        return match op[0] {
            "add" => float(&|x| x[0] + x[1], &|x| x[0] + x[1]),
            "sub" => float(&|x| x[0] - x[1], &|x| x[0] - x[1]),
            "mul" => float(&|x| x[0] * x[1], &|x| x[0] * x[1]),
            "div" => float(&|x| x[0] / x[1], &|x| x[0] / x[1]),
            "fma" => float(&|x| x[0].mul_add(x[1], x[2]), &|x| x[0].mul_add(x[1], x[2])),
            "sqrt" => float(&|x| x[0].sqrt(), &|x| x[0].sqrt()),
            "neg" => float(&|x| -x[0], &|x| -x[0]),
            "abs" => float(&|x| x[0].abs(), &|x| x[0].abs()),
            _ => panic!("{op:?}"),
        };
    }
    if ty == "pred" {
        return match op[0] {
            "and" => v[0] & v[1],
            "or" => v[0] | v[1],
            "xor" => v[0] ^ v[1],
            "not" => 1 - v[0],
            _ => panic!("{op:?}"),
        };
    }
    // Integers, as numbers that hold all of them; the result is cut in the end.
    let bits = if wide(ty) { 64 } else { 32 };
    let number = |x: u64| -> i128 {
        match (ty.starts_with('s'), wide(ty)) {
            (true, true) => i128::from(x as i64),
            (true, false) => i128::from(x as u32 as i32),
            (false, true) => i128::from(x),
            (false, false) => i128::from(x as u32),
        }
    };
    let n: Vec<i128> = v.iter().map(|&x| number(x)).collect();
    let all = match (op[0], op.get(1).copied()) {
        ("add", _) => n[0] + n[1],
        ("sub", _) => n[0] - n[1],
        ("mul", Some("lo")) => n[0].wrapping_mul(n[1]),
        ("mul", Some("hi")) => n[0].wrapping_mul(n[1]) >> bits,
        ("mad", Some("lo")) => n[0].wrapping_mul(n[1]) + n[2],
        // The sum has twice as many bits as the factors.
        ("mad", Some("wide")) => return (n[0] * n[1]).wrapping_add(i128::from(v[2])) as u64,
        ("div", _) => n[0] / n[1],
        ("rem", _) => n[0] % n[1],
        ("min", _) => n[0].min(n[1]),
        ("max", _) => n[0].max(n[1]),
        ("neg", _) => -n[0],
        ("not", _) => !n[0],
        ("and", _) => n[0] & n[1],
        ("or", _) => n[0] | n[1],
        ("xor", _) => n[0] ^ n[1],
        // Amounts beyond the width move everything out.
        ("shl", _) => n[0] << (v[1] as u32).min(64),
        ("shr", _) => n[0] >> (v[1] as u32).min(64),
        _ => panic!("{op:?}"),
    };
    if wide(ty) { all as u64 } else { u64::from(all as u32) }
}

/// The lanes of each warp exchange numbers.
fn shuffle(inst: &Inst, threads: &mut [Thread]) {
    let Operand::Register(to) = inst.operands[0] else { panic!("a result is a register") };
    let Operand::Register(from) = inst.operands[1] else { panic!("what is exchanged is in a register") };
    let given: Vec<u64> = threads.iter().map(|t| t.registers[from]).collect();
    for (i, t) in threads.iter_mut().enumerate() {
        let operand = match &inst.operands[2] {
            Operand::Register(r) => t.registers[*r],
            Operand::Number(n) => *n,
            other => panic!("a lane is {other:?}"),
        };
        let (warp, lane) = (i / 32 * 32, i % 32);
        let source = match inst.op[2].as_str() {
            "idx" => operand as usize & 31,
            "bfly" => lane ^ operand as usize,
            other => panic!("a shuffle {other}"),
        };
        t.registers[to] = given[warp + source];
    }
}
