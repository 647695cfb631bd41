//! Tables of numbers from CSV files.
//!
//! A table is read as f32, four bytes for each selected value; of the file itself only one record
//! is in memory at a time. Errors give the line, and the name of the column if the file has a
//! header.

use crate::data::{Pairs, TensorDataset, file};
use ::csv::{ByteRecord, ReaderBuilder, Trim};
use elinvar_core::{Error, HostTensor, Result, Shape};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

/// A record longer than this has an unclosed quote.
const RECORD: u64 = 64 << 20;
/// Spellings of a missing value: empty, and those of R, pandas, SQL and the UCI repository.
const MISSING: [&str; 7] = ["", "NA", "N/A", "NaN", "nan", "null", "?"];

/// A column, by its name in the header or its number from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By name.
    Name(String),
    /// By number.
    Number(usize),
}

impl From<&str> for Column {
    fn from(name: &str) -> Self {
        Column::Name(name.into())
    }
}

impl From<usize> for Column {
    fn from(number: usize) -> Self {
        Column::Number(number)
    }
}

/// Handling of missing values: an empty field, `NA`, `N/A`, `NaN`, `nan`, `null` or `?`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Missing {
    /// It is an error.
    Error,
    /// The line is skipped.
    Skip,
    /// Replaced by this number; a missing class is still an error.
    Value(f32),
}

/// How class names are numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Classes {
    /// Sorted bytewise: `10` comes before `2`.
    Sorted,
    /// In the order of their first occurrence.
    FirstSeen,
    /// As given; any other name in the file is an error. For a second file with the classes of the
    /// first.
    Given(Vec<String>),
}

#[derive(Clone, Debug)]
enum Target {
    None,
    Numbers(Vec<Column>),
    Class(Column, Classes),
}

/// Reads CSV files.
///
/// ```
/// use elinvar_nn::data::{Classes, Csv};
///
/// let text = "width,height,kind\n1.5,2,cat\n0.5,4,ant\n";
/// let table = Csv::new().class("kind", Classes::Sorted).read_from(text.as_bytes())?;
/// assert_eq!(table.x.as_slice::<f32>()?, [1.5, 2.0, 0.5, 4.0]);
/// assert_eq!(table.classes, ["ant", "cat"]);
/// let pairs = table.pairs()?;
/// assert_eq!(pairs.y().as_slice::<i64>()?, [1, 0]);
/// # Ok::<(), elinvar_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Csv {
    delimiter: u8,
    header: bool,
    features: Option<Vec<Column>>,
    target: Target,
    missing: Missing,
}

impl Default for Csv {
    fn default() -> Self {
        Csv::new()
    }
}

/// A table in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The features: [n, columns] of f32.
    pub x: HostTensor,
    /// The target: \[n\] of f32, [n, columns] if it has several, \[n\] of i64 for classes.
    pub y: Option<HostTensor>,
    /// Names of the features: `column 3` if the file has no header.
    pub columns: Vec<String>,
    /// Names of the classes, by number.
    pub classes: Vec<String>,
    /// Number of lines that were skipped because of missing values.
    pub skipped: usize,
}

impl Table {
    /// Features with their targets.
    ///
    /// # Errors
    /// `InvalidArgument` if no target was selected.
    pub fn pairs(self) -> Result<Pairs> {
        match self.y {
            Some(y) => Pairs::new(self.x, y),
            None => Err(Error::argument("csv: pairs need a target; name one by `target` or `class`")),
        }
    }
    /// The features, and the targets if there are any.
    ///
    /// # Errors
    /// None that this type can cause.
    pub fn dataset(self) -> Result<TensorDataset> {
        TensorDataset::new([Some(self.x), self.y].into_iter().flatten().collect())
    }
}

impl Csv {
    /// Commas, a header, all columns but the target are features, and a missing value is an error.
    pub fn new() -> Self {
        Csv { delimiter: b',', header: true, features: None, target: Target::None, missing: Missing::Error }
    }
    /// The delimiter.
    #[must_use]
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }
    /// Is the first line a header?
    #[must_use]
    pub fn header(mut self, header: bool) -> Self {
        self.header = header;
        self
    }
    /// Selects the feature columns, in this order.
    #[must_use]
    pub fn features<C: Into<Column>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.features = Some(columns.into_iter().map(Into::into).collect());
        self
    }
    /// Selects numeric columns as the target.
    #[must_use]
    pub fn target<C: Into<Column>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.target = Target::Numbers(columns.into_iter().map(Into::into).collect());
        self
    }
    /// Selects a column of class names as the target.
    #[must_use]
    pub fn class(mut self, column: impl Into<Column>, classes: Classes) -> Self {
        self.target = Target::Class(column.into(), classes);
        self
    }
    /// Sets the handling of missing values.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `Io` or `Format` with the file's name; see [`read_from`](Csv::read_from).
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Table> {
        let path = path.as_ref();
        self.read_from(file::open(path)?).map_err(|e| e.at(path.display()))
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// `Format`, with line and column: a line with another number of fields than the first, a value
    /// that is not a finite number, an unknown class, a missing value, an empty file.
    /// `InvalidArgument` if a column does not exist; `OutOfMemory`.
    pub fn read_from(&self, bytes: impl Read) -> Result<Table> {
        let lines = Rc::new(RefCell::new(Lines::new()));
        let mut reader = ReaderBuilder::new()
            .delimiter(self.delimiter)
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .from_reader(Limited { inner: bytes, lines: lines.clone() });
        let mut record = ByteRecord::new();
        let mut next = |record: &mut ByteRecord| {
            lines.borrow_mut().used = 0;
            reader.read_byte_record(record).map_err(|e| match e.into_kind() {
                ::csv::ErrorKind::Io(e) if e.kind() == io::ErrorKind::InvalidData => {
                    Error::format(e.to_string())
                }
                ::csv::ErrorKind::Io(e) => Error::from(e),
                // UTF-8 and lengths are checked here, field by field; the crate has no other errors
                // for bytes.
                other => Error::format(format!("{other:?}")),
            })
        };
        if !next(&mut record)? {
            return Err(Error::format("csv: the file is empty; it needs one line of values at least"));
        }
        let names = Names::new(&record, self.header)?;
        let mut rows = self.rows(&names)?;
        let mut more = !self.header || next(&mut record)?;
        while more {
            let line = lines.borrow_mut().of(&record);
            rows.line(line, &record, &names, self.missing)?;
            more = next(&mut record)?;
        }
        rows.table(&names)
    }

    /// The indices of the selected columns.
    fn rows(&self, names: &Names) -> Result<Rows> {
        let all = |columns: &[Column]| columns.iter().map(|c| names.find(c)).collect::<Result<Vec<_>>>();
        let (targets, class) = match &self.target {
            Target::None => (vec![], None),
            Target::Numbers(columns) if columns.is_empty() => {
                return Err(Error::argument(
                    "csv: a target of no columns; name one, or leave the target out",
                ));
            }
            Target::Numbers(columns) => (all(columns)?, None),
            Target::Class(column, classes) => (vec![], Some((names.find(column)?, Labels::new(classes)?))),
        };
        let features = match &self.features {
            Some(columns) => all(columns)?,
            None => {
                let taken = |c: &usize| targets.contains(c) || class.as_ref().is_some_and(|(k, _)| k == c);
                (0..names.count).filter(|c| !taken(c)).collect()
            }
        };
        if features.is_empty() {
            return Err(Error::argument("csv: no column is left for the features; one at least would fit"));
        }
        Ok(Rows { features, targets, class, x: vec![], y: vec![], labels: vec![], n: 0, skipped: 0 })
    }
}

/// The columns of a file.
struct Names {
    names: Option<Vec<String>>,
    count: usize,
}

impl Names {
    fn new(first: &ByteRecord, header: bool) -> Result<Self> {
        let text = |(i, field): (usize, &[u8])| {
            let name = std::str::from_utf8(field);
            name.map(str::to_owned)
                .map_err(|_| Error::format(format!("csv: line 1: the name of column {i} is not UTF-8")))
        };
        let names = header.then(|| first.iter().enumerate().map(text).collect::<Result<_>>()).transpose()?;
        Ok(Names { names, count: first.len() })
    }
    fn find(&self, column: &Column) -> Result<usize> {
        let none = |what: String| Err(Error::argument(format!("csv: {what}")));
        match (column, &self.names) {
            (Column::Number(i), _) if *i < self.count => Ok(*i),
            (Column::Number(i), _) => none(format!("there is no column {i}, only {} of them", self.count)),
            (Column::Name(name), None) => none(format!(
                "column '{name}' is asked for by name, and the file has no header; use its number"
            )),
            (Column::Name(name), Some(names)) => {
                let mut found = (0..names.len()).filter(|i| names[*i] == *name);
                match (found.next(), found.next()) {
                    (Some(i), None) => Ok(i),
                    (Some(i), Some(j)) => {
                        none(format!("columns {i} and {j} are both called '{name}'; use the number"))
                    }
                    (None, _) => none(format!("there is no column '{name}'; the columns are {}", few(names))),
                }
            }
        }
    }
    fn show(&self, i: usize) -> String {
        match &self.names {
            Some(names) => names[i].clone(),
            None => format!("column {i}"),
        }
    }
}

/// A list for an error message, truncated.
fn few(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(20).map(|n| shorten(n)).collect();
    shown.join(", ") + if names.len() > 20 { ", .." } else { "" }
}

/// The beginning of a text, for an error message.
fn shorten(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    if start.len() < text.len() { start + ".." } else { start }
}

/// Class names and their numbers.
struct Labels {
    numbers: HashMap<String, i64>,
    names: Vec<String>,
    order: Classes,
}

impl Labels {
    fn new(order: &Classes) -> Result<Self> {
        let names = match order {
            Classes::Sorted | Classes::FirstSeen => vec![],
            Classes::Given(names) => names.clone(),
        };
        let numbers: HashMap<_, _> = names.iter().cloned().zip(0..).collect();
        if numbers.len() < names.len() {
            return Err(Error::argument("csv: a class is given twice; each name should be there once"));
        }
        Ok(Labels { numbers, names, order: order.clone() })
    }
    /// The number of a name; a new name is added unless the names are given.
    fn number(&mut self, name: &str) -> Option<i64> {
        if let Some(i) = self.numbers.get(name) {
            return Some(*i);
        }
        if matches!(self.order, Classes::Given(_)) {
            return None;
        }
        let i = self.names.len() as i64;
        self.names.push(name.into());
        self.numbers.insert(name.into(), i);
        Some(i)
    }
}

/// The rows read so far.
struct Rows {
    features: Vec<usize>,
    targets: Vec<usize>,
    class: Option<(usize, Labels)>,
    x: Vec<f32>,
    y: Vec<f32>,
    labels: Vec<i64>,
    n: usize,
    skipped: usize,
}

impl Rows {
    fn line(&mut self, line: u64, record: &ByteRecord, names: &Names, missing: Missing) -> Result<()> {
        if record.len() != names.count {
            return Err(Error::format(format!(
                "csv: line {line}: {} fields instead of {}",
                record.len(),
                names.count
            )));
        }
        let at = |c: usize| format!("csv: line {line}, {}", names.show(c));
        let text = |c: usize| {
            std::str::from_utf8(&record[c]).map_err(|_| Error::format(format!("{}: not UTF-8", at(c))))
        };
        let absent = |c: usize| Error::format(format!("{}: the value is missing", at(c)));
        if missing == Missing::Skip {
            let class = self.class.iter().map(|(c, _)| c);
            for c in self.features.iter().chain(&self.targets).chain(class) {
                if MISSING.contains(&text(*c)?) {
                    self.skipped += 1;
                    return Ok(());
                }
            }
        }
        let number = |c: usize| {
            let field = text(c)?;
            if MISSING.contains(&field) {
                return if let Missing::Value(v) = missing { Ok(v) } else { Err(absent(c)) };
            }
            match field.parse::<f32>() {
                Ok(v) if v.is_finite() => Ok(v),
                Ok(_) => Err(Error::format(format!("{}: '{}' is not finite in f32", at(c), shorten(field)))),
                Err(_) => Err(Error::format(format!("{}: '{}' is no number", at(c), shorten(field)))),
            }
        };
        for c in &self.features {
            file::push(&mut self.x, number(*c)?)?;
        }
        for c in &self.targets {
            file::push(&mut self.y, number(*c)?)?;
        }
        if let Some((c, labels)) = &mut self.class {
            let name = text(*c)?;
            if MISSING.contains(&name) {
                return Err(absent(*c));
            }
            let label = labels.number(name).ok_or_else(|| {
                Error::format(format!(
                    "{}: '{}' is none of the classes {}",
                    at(*c),
                    shorten(name),
                    few(&labels.names)
                ))
            })?;
            file::push(&mut self.labels, label)?;
        }
        self.n += 1;
        Ok(())
    }

    fn table(mut self, names: &Names) -> Result<Table> {
        if self.n == 0 {
            return Err(Error::format(match self.skipped {
                0 => "csv: the file has a header and no values".to_owned(),
                s => format!("csv: a value is missing in each of the {s} lines; none is left"),
            }));
        }
        let n = self.n;
        let x = HostTensor::from_vec(self.x, Shape::new(&[n, self.features.len()])?)?;
        let mut classes = vec![];
        let y = match (self.class.take(), self.targets.len()) {
            (Some((_, labels)), _) => {
                let (names, rank) = sorted(labels);
                if let Some(rank) = rank {
                    self.labels.iter_mut().for_each(|l| *l = rank[*l as usize]);
                }
                classes = names;
                Some(HostTensor::from_vec(self.labels, Shape::new(&[n])?)?)
            }
            (None, 0) => None,
            (None, 1) => Some(HostTensor::from_vec(self.y, Shape::new(&[n])?)?),
            (None, k) => Some(HostTensor::from_vec(self.y, Shape::new(&[n, k])?)?),
        };
        let columns = self.features.iter().map(|c| names.show(*c)).collect();
        Ok(Table { x, y, columns, classes, skipped: self.skipped })
    }
}

/// The names in the requested order, and the new number of each if it changed.
fn sorted(labels: Labels) -> (Vec<String>, Option<Vec<i64>>) {
    match labels.order {
        Classes::FirstSeen | Classes::Given(_) => (labels.names, None),
        Classes::Sorted => {
            let mut names = labels.names;
            names.sort_unstable();
            let mut rank = vec![0; names.len()];
            names.iter().enumerate().for_each(|(i, name)| rank[labels.numbers[name] as usize] = i as i64);
            (names, Some(rank))
        }
    }
}

/// The starts of lines that are read but not yet consumed: the crate gives the position of a record
/// before the empty lines in front of it.
struct Lines {
    /// Offset and number of each line that is not empty.
    starts: VecDeque<(u64, u64)>,
    offset: u64,
    line: u64,
    fresh: bool,
    /// Bytes since the last record.
    used: u64,
}

impl Lines {
    fn new() -> Self {
        Lines { starts: VecDeque::new(), offset: 0, line: 1, fresh: true, used: 0 }
    }
    fn read(&mut self, bytes: &[u8]) {
        for b in bytes {
            if self.fresh && !matches!(b, b'\r' | b'\n') {
                self.starts.push_back((self.offset, self.line));
            }
            self.fresh = *b == b'\n';
            self.line += u64::from(self.fresh);
            self.offset += 1;
        }
        self.used += bytes.len() as u64;
    }
    /// The line on which a record begins.
    fn of(&mut self, record: &ByteRecord) -> u64 {
        let Some(p) = record.position() else { return 0 };
        while self.starts.front().is_some_and(|(at, _)| *at < p.byte()) {
            self.starts.pop_front();
        }
        self.starts.front().map_or(p.line(), |(_, line)| *line)
    }
}

/// A reader that records the starts of lines, and fails when a single record takes more than
/// [`RECORD`] bytes.
struct Limited<R> {
    inner: R,
    lines: Rc<RefCell<Lines>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut lines = self.lines.borrow_mut();
        if lines.used > RECORD {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("csv: a line of more than {} MiB; a quote may not be closed", RECORD >> 20),
            ));
        }
        let n = self.inner.read(buf)?;
        lines.read(&buf[..n]);
        Ok(n)
    }
}
