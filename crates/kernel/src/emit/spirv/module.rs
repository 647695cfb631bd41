//! SPIR-V: a module while it is written, section by section in the order that the specification
//! asks for.
//!
//! How it can be wrong: an instruction in the wrong section, or a type that is declared twice.
//! Validators see both.

use super::code::{Capability, Code, Decoration};
use std::collections::HashMap;

/// A word of a module; most are names of values (ids).
pub(super) type Word = u32;

/// What every module begins with.
const MAGIC: Word = 0x0723_0203;
/// 1.5
const VERSION: Word = 0x0001_0500;

/// The parts of a module, in their order.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Capabilities,
    Extensions,
    Imports,
    MemoryModel,
    EntryPoints,
    Modes,
    Names,
    Decorations,
    /// Types, constants and variables.
    Globals,
    Functions,
}
/// How many parts there are.
const PARTS: usize = Part::Functions as usize + 1;

/// A module while it is written.
pub(super) struct Module {
    parts: [Vec<Word>; PARTS],
    /// The id that comes next.
    next: Word,
    /// Types by instruction and operands: no two may be the same.
    types: HashMap<(u32, Vec<Word>), Word>,
}

impl Module {
    pub(super) fn new() -> Self {
        Module { parts: [const { Vec::new() }; PARTS], next: 1, types: HashMap::new() }
    }
    /// A name that nothing has yet.
    pub(super) fn id(&mut self) -> Word {
        self.next += 1;
        self.next - 1
    }
    /// An instruction at the end of a part.
    pub(super) fn put(&mut self, part: Part, code: Code, operands: &[Word]) {
        let part = &mut self.parts[part as usize];
        part.push((operands.len() as Word + 1) << 16 | code as Word);
        part.extend_from_slice(operands);
    }
    /// A type, which may have been declared before.
    pub(super) fn declare(&mut self, code: Code, operands: &[Word]) -> Word {
        let key = (code as u32, operands.to_vec());
        if let Some(&id) = self.types.get(&key) {
            return id;
        }
        let id = self.id();
        self.types.insert(key, id);
        self.put(Part::Globals, code, &[&[id], operands].concat());
        id
    }
    /// A constant or a variable.
    pub(super) fn global(&mut self, code: Code, ty: Word, operands: &[Word]) -> Word {
        let id = self.id();
        self.put(Part::Globals, code, &[&[ty, id], operands].concat());
        id
    }
    pub(super) fn capability(&mut self, c: Capability) {
        self.put(Part::Capabilities, Code::Capability, &[c as Word]);
    }
    pub(super) fn decorate(&mut self, target: Word, d: Decoration, more: &[Word]) {
        self.put(Part::Decorations, Code::Decorate, &[&[target, d as Word], more].concat());
    }
    pub(super) fn decorate_member(&mut self, target: Word, member: u32, d: Decoration, more: Word) {
        self.put(Part::Decorations, Code::MemberDecorate, &[target, member, d as Word, more]);
    }
    /// What people who look at the module read.
    pub(super) fn name(&mut self, target: Word, name: &str) {
        self.put(Part::Names, Code::Name, &[&[target], &text(name)[..]].concat());
    }
    pub(super) fn words(self) -> Vec<Word> {
        // No tool has written it, and nothing is said of its schema.
        let mut all = vec![MAGIC, VERSION, 0, self.next, 0];
        self.parts.iter().for_each(|part| all.extend_from_slice(part));
        all
    }
}

/// A text as operands: its bytes, zero behind them, filled up to a word.
pub(super) fn text(text: &str) -> Vec<Word> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() / 4 + 1) * 4, 0);
    bytes.chunks_exact(4).map(|b| Word::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
