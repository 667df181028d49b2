//! Templates that try to exhaust time or memory (AS-135), and functions with extreme arguments.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::go::{Env, GoTemplate, Random, TemplateLimits, TemplateOptions};

struct Zeros(u8);

impl Random for Zeros {
    fn fill(&mut self, buffer: &mut [u8]) {
        for byte in buffer {
            self.0 = self.0.wrapping_mul(5).wrapping_add(1);
            *byte = self.0;
        }
    }
}

/// The result and the elapsed time.
fn run(text: &str, limits: &TemplateLimits) -> (Result<usize, String>, Duration) {
    let now = "2024-05-06T07:08:09Z".parse().unwrap();
    let mut env = Env::new(now, Box::new(Zeros(7)), super::thread_time);
    let params = match json!({"a": "x", "n": 3, "l": [1, "b"], "d": {"k": "v"}}) {
        Value::Object(params) => params,
        _ => Map::new(),
    };
    let began = super::thread_time();
    let template = GoTemplate::parse(text, &TemplateOptions::default());
    let result = template.and_then(|template| template.execute_in(&params, limits, &mut env));
    let took = super::thread_time() - began;
    (result.map(|out| out.len()).map_err(|error| error.to_string()), took)
}

/// Margin over the time limit: a single step of a debug build on a slow machine.
const GRACE: Duration = Duration::from_secs(10);

#[test]
fn hostile_templates_name_the_limit_in_bounded_time_as_135() {
    let many = |item: &str, count: usize| item.repeat(count);
    let big = r#"{{$s := repeat 1048000 "a"}}"#;
    let loops = |body: &str| format!("{big}{{{{range until 100000}}}}{body}{{{{end}}}}");
    let cases = [
        r#"{{regexFindAll ".*[^A-Z]|[A-Z]" (repeat 1048500 "A") -1 | len}}"#.to_owned(),
        r#"{{regexFindAll "(x+x+)+y|x" (repeat 1048500 "x") -1 | len}}"#.to_owned(),
        r#"{{regexSplit ".*?,|a" (repeat 1048500 "a") -1 | len}}"#.to_owned(),
        r#"{{regexReplaceAll ".*[^A-Z]|[A-Z]" (repeat 1048500 "A") "b" | len}}"#.to_owned(),
        r#"{{regexMatch "[ab]*a[ab]{900}c" (repeat 500000 "ab")}}{{repeat 2000000 "x"}}"#.to_owned(),
        r#"{{range until 9999}}{{$_ := regexMatch (printf "\\pL{40}%d" .) "x"}}{{end}}"#.to_owned(),
        loops("{{$_ := sha512sum $s}}"),
        loops(r#"{{$_ := contains "b" $s}}"#),
        loops("{{$_ := urlParse $s}}"),
        loops("{{$_ := lower $s}}"),
        loops("{{$_ := snakecase $s}}"),
        loops("{{$_ := b64enc $s | b64dec}}"),
        loops("{{$_ := eq $s (print $s)}}"),
        loops("{{$_ := semverCompare $s $s}}"),
        loops("{{$_ := fromJson $s}}"),
        loops("{{$_ := $s | quote}}"),
        loops("{{$_ := list $s $s}}"),
        loops("{{$_ := trimAll $s $s}}"),
        loops("{{$_ := toDate $s $s}}"),
        loops("{{$_ := dict $s $s}}"),
        loops("{{$_ := slugify $s}}"),
        format!("{big}{{{{quote {}}}}}", many("$s ", 5000)),
        format!("{big}{{{{squote {}}}}}", many("$s ", 5000)),
        format!("{big}{{{{cat {}}}}}", many("$s ", 5000)),
        format!("{big}{{{{print {}}}}}", many("$s ", 5000)),
        format!("{big}{{{{html {}}}}}", many("$s ", 5000)),
        format!("{{{{range until 1000000}}}}{{{{$_ := list {}}}}}{{{{end}}}}", many(". ", 1000)),
        format!("{{{{$l := list}}}}{{{{range until 100000}}}}{{{{$l = list $l {}}}}}{{{{end}}}}", many(". ", 500)),
        format!("{{{{$d := dict}}}}{{{{range until 100000}}}}{{{{$_ := set $d (toString .) (dict {})}}}}{{{{end}}}}", many("\"k\" . ", 50)),
        format!("{{{{range until 100000}}}}{{{{$_ := and {}}}}}{{{{end}}}}", many("$.a ", 5000)),
        format!("{{{{range until 100000}}}}{{{{$_ := or {} 1}}}}{{{{end}}}}", many("$.no ", 5000)),
        r#"{{$d := dict}}{{range until 20}}{{$_ := set $d (print . (repeat 1000000 "k")) 1}}{{end}}{{range until 100000}}{{$_ := keys $d}}{{end}}"#.to_owned(),
        r#"{{$l := list}}{{$s := repeat 1000000 "s"}}{{range until 1000}}{{$l = append $l $s}}{{end}}{{$_ := sortAlpha $l}}{{$_ := toStrings $l}}"#.to_owned(),
        r#"{{$l := list}}{{$s := repeat 1000000 "s"}}{{range until 1000}}{{$l = append $l $s}}{{end}}{{join "," $l}}"#.to_owned(),
        r#"{{$l := list}}{{$s := repeat 100000 "s"}}{{range until 1000}}{{$l = append $l $s}}{{end}}{{genSelfSignedCert "x" (list) $l 1}}"#.to_owned(),
        r#"{{$l := list}}{{range until 40}}{{$l = list $l $l}}{{end}}{{uniq (list $l $l)}}"#.to_owned(),
        r#"{{$l := until 5000}}{{$_ := uniq $l}}"#.to_owned(),
        r#"{{$s := repeat 1048000 ","}}{{$_ := splitList "," $s}}{{$_ := split "," $s}}"#.to_owned(),
        r#"{{$s := repeat 1048000 "a"}}{{$_ := splitList "" $s}}"#.to_owned(),
        r#"{{$s := repeat 1048000 ","}}{{$_ := regexSplit "," $s -1}}"#.to_owned(),
        r#"{{$y := printf "[%s]" (repeat 1000000 "a,")}}{{range until 50}}{{$_ := fromYamlArray $y}}{{end}}"#.to_owned(),
        r#"{{$y := printf "a: &a [%s]\nb: [%s]" (repeat 1000 "x,") (repeat 100000 "*a,")}}{{$v := fromYaml $y}}{{toYaml $v}}"#.to_owned(),
        r#"{{$y := printf "a: &a {%s}\nb: {<<: [%s]}" (repeat 100 "x: 1,") (repeat 100000 "*a,")}}{{range until 9}}{{$v := fromYaml $y}}{{end}}"#.to_owned(),
        r#"{{fromYaml (repeat 100000 "? ")}}"#.to_owned(),
        r#"{{fromYaml (repeat 300000 "- ")}}"#.to_owned(),
        r#"{{range until 100}}{{$_ := fromYaml (repeat 300000 "&a ")}}{{end}}"#.to_owned(),
        r#"{{range until 100}}{{$_ := fromJson (printf "[%s0]" (repeat 300000 "0,"))}}{{end}}"#.to_owned(),
        r#"{{printf "%1000000d%1000000d" 1 1}}"#.to_owned(),
        r#"{{printf "%1000000v" (until 10000)}}"#.to_owned(),
        r#"{{printf (repeat 100000 "%1000000d") 1}}"#.to_owned(),
        r#"{{range untilStep 0 9000000000000000000 1}}{{end}}"#.to_owned(),
        r#"{{seq 1 900000}}{{seq 1 900000}}"#.to_owned(),
        r#"{{randAlphaNum 900000}}{{randAlphaNum 900000}}"#.to_owned(),
        r#"{{range until 20}}{{$_ := bcrypt "x"}}{{end}}"#.to_owned(),
        r#"{{range until 20}}{{$_ := derivePassword 1 "long" "p" "u" "s"}}{{end}}"#.to_owned(),
        r#"{{range until 1000}}{{$_ := genPrivateKey "ecdsa"}}{{end}}"#.to_owned(),
        r#"{{$p := "1e308"}}{{range until 30000}}{{$_ := mulf $p $p $p $p $p $p $p $p $p $p $p $p $p $p $p $p}}{{end}}{{range until 1000000}}{{end}}"#.to_owned(),
        format!("{}{{{{$v999 := 1}}}}{{{{$v999}}}}", (0..5000).map(|i| format!("{{{{$v{i} := 1}}}}")).collect::<String>()),
        format!("{{{{range until 100000}}}}{{{{$_ := \"{}\"}}}}{{{{end}}}}", many("x", 500_000)),
        r#"{{define "a"}}{{range until 100}}{{template "b"}}{{end}}{{end}}{{define "b"}}{{range until 100}}{{template "c"}}{{end}}{{end}}{{define "c"}}{{range until 1000}}{{end}}{{end}}{{template "a"}}"#.to_owned(),
    ];
    let limits = TemplateLimits { time: Duration::from_secs(2), ..TemplateLimits::default() };
    let mut slowest = Vec::new();
    for text in &cases {
        let shown: String = text.chars().take(120).collect();
        let (result, took) = run(text, &limits);
        let error = result.expect_err(&shown);
        let named =
            error.contains("limit exceeded: ") || error.contains("more than 1000 variables");
        assert!(named, "{shown}: {}", error.chars().take(300).collect::<String>());
        assert!(took < limits.time + GRACE, "{shown}: took {took:?}");
        slowest.push((took, shown));
    }
    slowest.sort();
    for (took, shown) in slowest.iter().rev().take(12) {
        println!("{took:?} {shown}");
    }
}

#[test]
fn every_function_charges_for_what_it_reads_and_builds_as_135() {
    // Each function is called repeatedly with the largest possible values: it must end,
    // with its own error or a limit.
    let limits = TemplateLimits { time: Duration::from_secs(1), ..TemplateLimits::default() };
    let prelude = concat!(
        r#"{{$s := repeat 300000 "a"}}{{$t := repeat 9000 "ab, c-D\n/%"}}{{$l := until 20000}}"#,
        r#"{{$m := list}}{{range until 5}}{{$m = append $m $s}}{{end}}"#,
        r#"{{$d := dict}}{{range until 2000}}{{$_ := set $d (toString .) 1}}{{end}}"#,
        r#"{{$y := toDate "2006" "2020"}}{{$v := semver "1.2.3"}}"#,
    );
    assert_eq!(run(prelude, &limits).0, Ok(0));
    let mut slowest = Vec::new();
    for function in crate::funcs::tables().flatten() {
        // Slow by design, and covered by a separate test.
        if function.name.starts_with("gen") || function.name == "fail" {
            continue;
        }
        for text in ["$s", "$t"] {
            let value = |letter: char, other: &str| match letter {
                's' => text.to_owned(),
                'i' | 'u' => "3".to_owned(),
                'f' => "1.5".to_owned(),
                'b' => "true".to_owned(),
                'l' => "$m".to_owned(),
                'd' => "$d".to_owned(),
                't' => "$y".to_owned(),
                'V' => "$v".to_owned(),
                _ => other.to_owned(),
            };
            for other in [text, "$l", "$m", "$d"] {
                let mut args: Vec<String> = Vec::new();
                for letter in function.params.chars() {
                    match letter {
                        '*' => args.extend(std::iter::repeat_n(args.last().unwrap().clone(), 20)),
                        letter => args.push(value(letter, other)),
                    }
                }
                let call = format!(
                    "{prelude}{{{{range until 1000000}}}}{{{{$_ := {} {}}}}}{{{{end}}}}",
                    function.name,
                    args.join(" ")
                );
                let (result, took) = run(&call, &limits);
                let error = result.expect_err(&call);
                assert!(took < limits.time + GRACE, "{call}: took {took:?}, {error:.300}");
                slowest.push((took, format!("{} {}", function.name, args.join(" "))));
            }
        }
    }
    slowest.sort();
    for (took, call) in slowest.iter().rev().take(12) {
        println!("{took:?} {}", call.chars().take(90).collect::<String>());
    }
}
