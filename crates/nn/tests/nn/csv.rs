//! Tables from CSV: the results, and the error for each fault.

use elinvar_core::{ErrorKind, HostData, HostTensor};
use elinvar_nn::data::{Classes, Column, Csv, Dataset, Missing, Table};
use std::io::{self, Read};

const FLOWERS: &str = "id,length,width,kind\n1,5.5,2.5,rose\n2,4.25,1e1,aster\n3,-1,0.5,rose\n";

fn f32s(t: &HostTensor) -> (&[usize], &[f32]) {
    (t.shape().dims(), t.as_slice().unwrap())
}

fn read(csv: &Csv, text: &str) -> Table {
    csv.read_from(text.as_bytes()).unwrap()
}

#[test]
fn columns_become_features_and_targets() {
    let t = read(&Csv::new().class("kind", Classes::Sorted), FLOWERS);
    assert_eq!(f32s(&t.x), (&[3, 3][..], &[1.0, 5.5, 2.5, 2.0, 4.25, 10.0, 3.0, -1.0, 0.5][..]));
    assert_eq!(t.y.as_ref().unwrap().data(), &HostData::I64([1, 0, 1].into()));
    assert_eq!((t.columns.join(" "), t.classes.join(" ")), ("id length width".into(), "aster rose".into()));
    assert_eq!(t.clone().pairs().unwrap().len(), 3);
    assert_eq!(t.dataset().unwrap().get(1).unwrap().len(), 2);

    let t = read(&Csv::new().features(["width", "id"]).class("kind", Classes::FirstSeen), FLOWERS);
    assert_eq!(f32s(&t.x), (&[3, 2][..], &[2.5, 1.0, 10.0, 2.0, 0.5, 3.0][..]));
    assert_eq!(t.y.unwrap().data(), &HostData::I64([0, 1, 0].into()));
    assert_eq!(t.classes, ["rose", "aster"]);

    // A second file with the classes of the first.
    let given = Classes::Given(["tulip", "aster", "rose"].map(String::from).into());
    let t = read(&Csv::new().class("kind", given), FLOWERS);
    assert_eq!(t.y.unwrap().data(), &HostData::I64([2, 1, 2].into()));

    let t = read(&Csv::new().features([1usize]).target([Column::from("width")]), FLOWERS);
    assert_eq!(f32s(&t.y.unwrap()), (&[3][..], &[2.5, 10.0, 0.5][..]));
    let t = read(&Csv::new().features([1usize]).target(["width", "id"]), FLOWERS);
    assert_eq!(f32s(&t.y.unwrap()), (&[3, 2][..], &[2.5, 1.0, 10.0, 2.0, 0.5, 3.0][..]));

    // No header, another delimiter, blanks, quotes, a byte order mark, CRLF line ends, no newline
    // at the end.
    let t = read(&Csv::new().header(false).delimiter(b';'), "\u{feff}1 ;\"2\"\r\n\r\n3;4");
    assert_eq!(f32s(&t.x), (&[2, 2][..], &[1.0, 2.0, 3.0, 4.0][..]));
    assert_eq!(t.columns, ["column 0", "column 1"]);
    let quoted = read(&Csv::new().class("k", Classes::FirstSeen), "a,k\n1,\"x, \"\"y\"\"\nz\"\n");
    assert_eq!(quoted.classes, ["x, \"y\"\nz"]);
}

#[test]
fn missing_values_are_errors_skipped_or_replaced() {
    let text = "a,b,k\n1,,x\n2,3,y\n?,4,\n";
    let csv = Csv::new().class("k", Classes::Sorted);
    assert_eq!(csv.read_from(text.as_bytes()).unwrap_err().message(), "csv: line 2, b: the value is missing");
    let t = read(&csv.clone().missing(Missing::Skip), text);
    assert_eq!((f32s(&t.x).1, t.skipped, t.classes), (&[2.0, 3.0][..], 2, vec!["y".to_owned()]));
    let replaced = csv.missing(Missing::Value(-1.0)).read_from(text.as_bytes()).unwrap_err();
    assert_eq!(replaced.message(), "csv: line 4, k: the value is missing");
    let t = read(&Csv::new().features(["a", "b"]).missing(Missing::Value(-1.0)), text);
    assert_eq!(f32s(&t.x).1, [1.0, -1.0, 2.0, 3.0, -1.0, 4.0]);
    // Missing values of unselected columns do not matter.
    assert_eq!(f32s(&read(&Csv::new().features(["a"]), "a,b\n1,\n").x).1, [1.0]);
}

#[test]
fn each_fault_has_its_error() {
    let csv = Csv::new;
    let kinds = || csv().class("k", Classes::Sorted);
    let rows: Vec<(Csv, &[u8], ErrorKind, &str)> = vec![
        (csv(), b"", ErrorKind::Format, "csv: the file is empty; it needs one line of values at least"),
        (csv(), b"\n\n", ErrorKind::Format, "csv: the file is empty; it needs one line of values at least"),
        (csv(), b"a,b\n", ErrorKind::Format, "csv: the file has a header and no values"),
        (csv(), b"a,b\n\n1,2\n\n\n3\n", ErrorKind::Format, "csv: line 6: 1 fields instead of 2"),
        (
            csv(),
            b"\xef\xbb\xbfa,b\r\n\r\n1,2\r\n\r\n3\r\n",
            ErrorKind::Format,
            "csv: line 5: 1 fields instead of 2",
        ),
        (
            csv().class("k", Classes::Sorted),
            b"a,k\n1,\"x\ny\"\nz,x\n",
            ErrorKind::Format,
            "csv: line 4, a: 'z' is no number",
        ),
        (csv(), b"a,b\n1,2\n3\n", ErrorKind::Format, "csv: line 3: 1 fields instead of 2"),
        (csv(), b"a,b\n1,2\n3,4,5\n", ErrorKind::Format, "csv: line 3: 3 fields instead of 2"),
        (csv(), b"a,b\n1,2\n3,four\n", ErrorKind::Format, "csv: line 3, b: 'four' is no number"),
        (csv(), b"a\n1e99\n", ErrorKind::Format, "csv: line 2, a: '1e99' is not finite in f32"),
        (csv(), b"a\ninf\n", ErrorKind::Format, "csv: line 2, a: 'inf' is not finite in f32"),
        (csv(), b"a\n0x10\n", ErrorKind::Format, "csv: line 2, a: '0x10' is no number"),
        (csv(), b"a\n\xff\n", ErrorKind::Format, "csv: line 2, a: not UTF-8"),
        (csv(), b"a,\xff\n1,2\n", ErrorKind::Format, "csv: line 1: the name of column 1 is not UTF-8"),
        (csv().header(false), b"1\nx\n", ErrorKind::Format, "csv: line 2, column 0: 'x' is no number"),
        (csv(), b"a,k\n1,x\n", ErrorKind::Format, "csv: line 2, k: 'x' is no number"),
        (
            csv().missing(Missing::Skip),
            b"a\nNA\nNA\n",
            ErrorKind::Format,
            "csv: a value is missing in each of the 2 lines; none is left",
        ),
        (
            csv().class("k", Classes::Given(vec!["x".into()])),
            b"a,k\n1,x\n2,y\n",
            ErrorKind::Format,
            "csv: line 3, k: 'y' is none of the classes x",
        ),
        (
            csv().class("k", Classes::Given(vec!["x".into(), "x".into()])),
            b"a,k\n1,x\n",
            ErrorKind::InvalidArgument,
            "csv: a class is given twice; each name should be there once",
        ),
        (
            kinds(),
            b"a,b\n1,2\n",
            ErrorKind::InvalidArgument,
            "csv: there is no column 'k'; the columns are a, b",
        ),
        (
            kinds(),
            b"k,a,k\n1,2,3\n",
            ErrorKind::InvalidArgument,
            "csv: columns 0 and 2 are both called 'k'; use the number",
        ),
        (
            kinds(),
            b"k\nx\n",
            ErrorKind::InvalidArgument,
            "csv: no column is left for the features; one at least would fit",
        ),
        (
            csv().features([5usize]),
            b"a,b\n1,2\n",
            ErrorKind::InvalidArgument,
            "csv: there is no column 5, only 2 of them",
        ),
        (
            kinds().header(false),
            b"1,2\n",
            ErrorKind::InvalidArgument,
            "csv: column 'k' is asked for by name, and the file has no header; use its number",
        ),
        (
            csv().target(Vec::<usize>::new()),
            b"a\n1\n",
            ErrorKind::InvalidArgument,
            "csv: a target of no columns; name one, or leave the target out",
        ),
    ];
    for (csv, text, kind, sentence) in rows {
        let e = csv.read_from(text).unwrap_err();
        assert_eq!((e.kind(), e.message()), (kind, sentence), "{:?}", String::from_utf8_lossy(text));
    }
    let long = format!("a\n{}\n", "y".repeat(1000));
    assert!(csv().read_from(long.as_bytes()).unwrap_err().message().len() < 100);
    assert!(read(&csv(), "a\n1\n").pairs().is_err());
}

#[test]
fn files_are_named_and_only_regular_ones_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    std::fs::write(&path, "a\nx\n").unwrap();
    let e = Csv::new().read(&path).unwrap_err();
    assert_eq!(e.message(), format!("{}: csv: line 2, a: 'x' is no number", path.display()));
    for (path, sentence) in [(dir.path(), "not a regular file"), (&dir.path().join("no"), "No such file")] {
        let e = Csv::new().read(path).unwrap_err();
        assert!(e.kind() == ErrorKind::Io && e.message().contains(sentence), "{e:?}");
    }
}

/// An endless record with an unclosed quote.
struct Endless(bool);

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        buf.fill(b'x');
        if !std::mem::replace(&mut self.0, true) {
            buf[..3].copy_from_slice(b"a\n\"");
        }
        Ok(buf.len())
    }
}

#[test]
fn a_line_without_end_is_refused() {
    let e = Csv::new().read_from(Endless(false)).unwrap_err();
    assert_eq!(
        (e.kind(), e.message()),
        (ErrorKind::Format, "csv: a line of more than 64 MiB; a quote may not be closed")
    );
}
