//! The program: what it takes, compares and counts.

use cuhold_facts::Reading;
use std::{
    path::Path,
    process::{Command, Output},
};

fn facts(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_facts")).args(arguments).output().unwrap()
}

fn reading(output: &Output) -> Reading {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_process_for_each_question_hears_the_same_answers() {
    let only = ["--driver", "sim", "--only", "stack"];
    let here = reading(&facts(&only));
    let there = reading(&facts(&[&only[..], &["--in-processes"]].concat()));
    assert!(here.answers.len() > 3);
    assert_eq!(here, there);
}

#[test]
fn no_driver_is_an_error_that_says_what_was_tried() {
    let output = facts(&["--driver", "real", "--libcuda", "/nowhere/libcuda.so.1"]);
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nowhere/libcuda.so.1"));
}

#[test]
fn comparing_fails_where_two_readings_differ() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (one, two) = (folder.join("one.json"), folder.join("two.json"));
    let taken = reading(&facts(&["--driver", "sim", "--only", "stack"]));
    std::fs::write(&one, taken.to_json().unwrap()).unwrap();
    let mut other = taken;
    *other.answers.first_entry().unwrap().get_mut() = "SUCCESS something=else".to_owned();
    std::fs::write(&two, other.to_json().unwrap()).unwrap();
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    assert!(facts(&["--compare", one, one]).status.success());
    let output = facts(&["--compare", one, two]);
    assert!(!output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("SUCCESS something=else") && text.contains("differences: 1"), "{text}");
}

#[test]
fn a_driver_is_compared_with_the_committed_reading() {
    let output = facts(&["--driver", "sim", "--only", "an event isn't", "--compare"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("differences: 0") && !text.contains("answers: 0"), "{text}");
    let output = facts(&["--driver", "sim", "--compare", "one.json"]);
    assert!(!output.status.success());
}
