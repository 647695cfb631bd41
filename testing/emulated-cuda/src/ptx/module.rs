//! The header of a module, and the declarations of its entry: parameters, registers, shared memory.

use super::decode::Decoder;
use super::files::File;
use super::{Module, Refused};
use crate::settings::MOST_SHARED;
use emulated_gpu::inst::Inst;
use emulated_gpu::program::{Param, Program};

/// Decodes a text. See [`super::parse`].
pub fn module(text: &str, capability: u32, version: (u32, u32)) -> Result<Module, Refused> {
    let mut d = Decoder { granule: 8, ..Decoder::default() };
    let (mut entry, mut group, mut param_bytes, mut shared) = (None, [1; 3], 0, 0);
    let mut dynamic = false;
    for (n, whole) in text.lines().enumerate() {
        let line = whole.split("//").next().unwrap_or("").trim().trim_end_matches([';', ',']).trim();
        let refuse = |why: String| Refused::Text(format!("line {}: {why}: {}", n + 1, whole.trim()));
        let mut words = line.split_whitespace();
        match words.next() {
            None | Some("{" | "}" | "(" | ")" | ".address_size" | ".minnctapersm") => {}
            Some(".version") => {
                let of = words.next().and_then(|w| w.split_once('.'));
                let of = of.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                let of: (u32, u32) = of.ok_or_else(|| refuse("a version is expected".into()))?;
                if of > version {
                    return Err(Refused::Version(of));
                }
            }
            Some(".target") => {
                let word = words.next().and_then(|w| w.strip_prefix("sm_")).unwrap_or("");
                let number = word.strip_suffix('a').unwrap_or(word);
                d.capability = number.parse().map_err(|_| refuse("a target is expected".into()))?;
                d.alone = word != number;
                if d.capability > capability || (d.alone && d.capability != capability) {
                    return Err(Refused::Target(d.capability));
                }
            }
            Some(".visible") => {
                let name = line.split_once(".entry ").map(|(_, r)| r.trim_end_matches('(').trim());
                let name = name.ok_or_else(|| refuse("an entry is expected".into()))?;
                if entry.replace(name.to_string()).is_some() {
                    return Err(refuse("a second entry".into()));
                }
            }
            Some(".param") => {
                param_bytes = d.param(line, param_bytes).map_err(refuse)?;
            }
            Some(".reqntid") => {
                let sizes = line[".reqntid".len()..].split(',').map(|w| w.trim().parse::<u32>());
                for (to, size) in group.iter_mut().zip(sizes) {
                    *to = size.map_err(|e| refuse(e.to_string()))?;
                }
            }
            Some(".reg") => d.registers(line).map_err(refuse)?,
            Some(".extern") => {
                d.extern_shared(line).map_err(refuse)?;
                if std::mem::replace(&mut dynamic, true) {
                    return Err(refuse("a second piece of shared memory of unknown size".into()));
                }
            }
            Some(".shared") => {
                shared = d.shared(line, shared).map_err(refuse)?;
                if shared > MOST_SHARED as usize {
                    return Err(refuse(format!("more than {MOST_SHARED} bytes of shared memory")));
                }
            }
            Some(_) => d.line(line, n as u32).map_err(refuse)?,
        }
    }
    if dynamic && shared > 0 {
        return Err(Refused::Text(
            "shared memory of known and of unknown size in one kernel is not emulated".into(),
        ));
    }
    let entry = entry.ok_or_else(|| Refused::Text("there is no entry".into()))?;
    let threads: u64 = group.iter().map(|&n| u64::from(n)).product();
    if threads == 0 || threads > 1024 {
        return Err(Refused::Text(format!("a workgroup of {threads} threads")));
    }
    for (at, label) in &d.branches {
        let Some(&to) = d.labels.get(label) else {
            return Err(Refused::Text(format!("there is no label {label}")));
        };
        if let Inst::Branch { to: place, .. } = &mut d.insts[*at] {
            *place = to;
        }
    }
    d.insts.push(Inst::Return);
    d.lines.push(d.lines.last().copied().unwrap_or(0));
    let columns = |f| d.files.columns.get(&f).copied().unwrap_or(0) as usize;
    let constants = |f: File| d.files.constants.iter().filter(move |((g, _), _)| *g == f);
    let program = Program {
        entry,
        lanes: 32,
        group,
        narrow: columns(File::Narrow),
        wide: columns(File::Wide),
        predicates: columns(File::Predicate),
        constants32: constants(File::Narrow).map(|((_, bits), &c)| (c, *bits as u32)).collect(),
        constants64: constants(File::Wide).map(|((_, bits), &c)| (c, *bits)).collect(),
        constants1: Vec::new(),
        specials: d.files.specials,
        params: d.files.params.into_iter().map(|(_, _, p)| p).collect(),
        blobs: d.files.blobs.len(),
        param_bytes,
        shared,
        dynamic,
        granule: d.granule,
        backwards: false,
        open_conversions: false,
        insts: d.insts,
        lines: d.lines,
        lists: d.lists,
        text: text.to_string(),
    };
    Ok(Module { capability: d.capability, alone: d.alone, program })
}

impl Decoder {
    /// `.param .u64 b0`: aligned to its size. `.param .align 64 .b8 t0[128]`: bytes.
    fn param(&mut self, line: &str, used: usize) -> Result<usize, String> {
        if let [".param", ".align", align, ".b8", rest] = line.split_whitespace().collect::<Vec<_>>()[..] {
            let align: usize = align.parse().map_err(|_| "an alignment")?;
            let (name, bytes) = rest.trim_end_matches(']').split_once('[').ok_or("a number of bytes")?;
            let at = used.next_multiple_of(align);
            self.files.blobs.insert(name.to_string(), at);
            return Ok(at + bytes.parse::<usize>().map_err(|_| "a number of bytes")?);
        }
        let mut words = line.split_whitespace().skip(1);
        let (Some(ty), Some(name)) = (words.next(), words.next()) else { return Err("a parameter".into()) };
        let (size, file) = match ty {
            ".u64" | ".s64" | ".b64" | ".f64" => (8, File::Wide),
            ".u32" | ".s32" | ".b32" | ".f32" => (4, File::Narrow),
            _ => return Err(format!("a parameter of type {ty}")),
        };
        let offset = used.next_multiple_of(size);
        let column = self.files.new_columns(file, 1);
        self.files.params.push((name.to_string(), file, Param { offset, size, column }));
        Ok(offset + size)
    }
    /// `.reg .b32 %r<12>`
    fn registers(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace().skip(1);
        let ty = words.next().and_then(|w| w.strip_prefix('.')).ok_or("a type")?;
        let (name, count) =
            words.next().and_then(|w| w.trim_end_matches('>').split_once('<')).ok_or("a name")?;
        self.files.declare(ty, name, count.parse().map_err(|_| "a number of registers")?)
    }
    /// `.extern .shared .align 128 .b8 all[]`: dynamic shared memory of a launch.
    fn extern_shared(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [".extern", ".shared", ".align", align, ".b8", name] = words[..] else {
            return Err("something external that is no shared memory".into());
        };
        let name = name.strip_suffix("[]").ok_or("shared memory of unknown size")?;
        let power = align.parse::<u32>().is_ok_and(u32::is_power_of_two);
        self.files.shared.insert(name.to_string(), 0);
        if power { Ok(()) } else { Err("an alignment".into()) }
    }
    /// `.shared .align 16 .b8 s0[64]`
    fn shared(&mut self, line: &str, used: usize) -> Result<usize, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [".shared", ".align", align, ".b8", rest] = words[..] else { return Err("shared memory".into()) };
        let align: usize = align.parse().map_err(|_| "an alignment")?;
        let (name, bytes) = rest.trim_end_matches(']').split_once('[').ok_or("a number of bytes")?;
        let at = used.next_multiple_of(align);
        self.files.shared.insert(name.to_string(), at);
        Ok(at + bytes.parse::<usize>().map_err(|_| "a number of bytes")?)
    }
}
