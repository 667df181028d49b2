//! How generators are evaluated: what is read at once, what they found, and where a parameter set
//! comes from.

use super::*;
use crate::desired::inputs::Finding;

fn files(path: &str) -> Value {
    json!({"git": {"repoURL": "r", "files": [{"path": path}]}})
}

fn matrix(first: Value, second: Value) -> Value {
    json!({"matrix": {"generators": [first, second]}})
}

/// A second generator without parameters of the first one is read together with it.
#[test]
fn generators_that_do_not_depend_on_each_other_are_read_at_once() {
    let world = World {
        directories: &["a", "b"],
        files: &[("x/c.json", "{}"), ("a/c.json", "{}"), ("b/c.json", "{}")],
        ..World::default()
    };
    let directories = json!({"git": {"repoURL": "r", "directories": [{"path": "*"}]}});
    for (second, sets, want) in
        [(files("x/*.json"), 2, vec![2]), (files("{{.path.path}}/c.json"), 2, vec![1, 2])]
    {
        let element = matrix(directories.clone(), second);
        let (found, _, rounds) = world.evaluate_in_rounds(true, &element).unwrap();
        assert_eq!((found.len(), rounds), (sets, want), "{element}");
    }
}

/// One evaluation of a generator may find nothing while another one does.
#[test]
fn each_evaluation_of_a_generator_has_its_own_finding() {
    let world = World { files: &[("prod/c.json", "{}")], ..World::default() };
    let environments = json!({"list": {"elements": [{"env": "dev"}, {"env": "prod"}]}});
    let element = matrix(environments.clone(), files("{{env}}/*.json"));
    let (_, reads) = world.evaluate(false, &element).unwrap();
    let of_git: Vec<Finding> = (reads.found.iter())
        .filter(|(place, _)| place.contains("git["))
        .map(|(_, found)| *found)
        .collect();
    assert_eq!(of_git.len(), 2, "{:?}", reads.found);
    assert!(of_git.contains(&Finding::Nothing) && of_git.contains(&Finding::Something));
    // One that depends on nothing has one.
    let fixed = matrix(environments, files("prod/*.json"));
    let (_, reads) = world.evaluate(false, &fixed).unwrap();
    assert!(reads.found.keys().all(|place| !place.contains("git[")), "{:?}", reads.found);
}

#[test]
fn a_parameter_set_of_a_file_names_its_place() {
    let world = World {
        files: &[("one.json", "{}"), ("two.json", r#"[{"a": "1"}, {"a": "2"}]"#)],
        ..World::default()
    };
    let (sets, ..) = world.evaluate_in_rounds(false, &files("*.json")).unwrap();
    let origins: Vec<&str> = sets.iter().map(|set| set.origin.as_str()).collect();
    assert_eq!(origins, ["g.git[one.json]", "g.git[two.json][0]", "g.git[two.json][1]"]);
}

/// AS-051: without Go templates, only `values` is a map.
#[test]
fn maps_of_list_elements_are_refused_without_go_templates() {
    let element = |value: Value| json!({"list": {"elements": [value]}});
    let world = World::default();
    let sets = world.sets(false, &element(json!({"a": "1", "values": {"b": "2"}}))).unwrap();
    assert_eq!(sets, [json!({"a": "1", "values.b": "2"})]);
    let parts = ["elements[0].a", "must be a string, is an object"];
    world.fails(false, &element(json!({"a": {"b": "2"}})), &parts, 0);
    let parts = ["elements[0].values", "an object of strings"];
    world.fails(false, &element(json!({"values": "x"})), &parts, 0);
}

#[test]
fn an_answer_takes_as_much_room_as_its_texts() {
    let directories = GitAnswer::Directories(vec!["a/b".to_owned(), "c".to_owned()]);
    assert_eq!(directories.size(), 4);
    let files = [("a.json".to_owned(), "{}".to_owned()), ("b".to_owned(), "text".to_owned())];
    assert_eq!(GitAnswer::Files(files.into()).size(), 13);
}
