//! What is claimed of the way from Argo CD and back, by the commands of docs/install.md.

use super::super::markdown::{Block, Page};
use super::super::pages::Cluster;
use super::super::session::Session;

/// The block of commands with these words.
fn block<'a>(page: &'a Page, words: &str) -> &'a Block {
    let mut found = page.blocks().filter(|block| block.is_commands() && block.text.contains(words));
    let block = found.next().unwrap_or_else(|| panic!("no block has {words:?}"));
    assert!(found.next().is_none(), "several blocks have {words:?}");
    block
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_step_of_the_switch_over_is_reverted() {
    if !crate::support::kubectl::is_installed() {
        return;
    }
    let cluster = Cluster::embedded().await;
    tokio::task::spawn_blocking(move || {
        let page = Page::read("docs/install.md");
        let mut session = Session::start(&cluster.kubeconfig);
        let mut run = |commands: &str| {
            let (code, printed) = session.run(commands);
            assert_eq!(code, 0, "{commands}\n{printed}");
            printed
        };
        run("kubectl apply --server-side -k crds/\nwavegate crds --wait\n\
             kubectl apply -f deploy/namespace.yaml\nkubectl apply -f tests/data/argo-cd.yaml\n\
             mkdir my-cluster\n");
        let rights = "kubectl get clusterrole,clusterrolebinding wavegate-sync --ignore-not-found -o name";
        let args = "kubectl -n argocd get deployment wavegate -o jsonpath='{.spec.template.spec.containers[0].args}'";
        let both = "clusterrole.rbac.authorization.k8s.io/wavegate-sync\n\
                    clusterrolebinding.rbac.authorization.k8s.io/wavegate-sync\n";
        let replicas = |kind: &str, name: &str| {
            format!("kubectl -n argocd get {kind} {name} -o jsonpath='{{.spec.replicas}}'")
        };
        let of_sets = replicas("deployment", "argocd-applicationset-controller");
        let of_applications = replicas("statefulset", "argocd-application-controller");
        // What runs beside what: the program itself says it, without starting.
        let start = "timeout 20 wavegate run --namespace argocd --metrics-addr= --probe-addr= --webhook-addr= 2>&1 || true";
        assert!(run(start).contains("argocd-applicationset-controller"), "it does not start");

        let step = &block(&page, "--sync-engine=external}").text;
        run(step);
        assert_eq!(run(rights), "", "Argo CD syncs");
        assert!(run(args).contains("--sync-engine=external"));
        assert_eq!((run(&of_sets), run(&of_applications)), ("0".to_owned(), "1".to_owned()));
        assert!(run(start).contains("argocd-application-controller"), "only with the other engine");

        run(&block(&page, "sed -i '/^patches:/,$d'").text);
        assert_eq!(run(rights), both);
        assert!(!run(args).contains("--sync-engine=external"));
        assert_eq!(run(&of_applications), "0");

        // Back: the patches again, and Argo CD's controller.
        run(step);
        assert!(run(args).contains("--sync-engine=external"));
        assert_eq!(run(rights), both, "they stay, with their rights");
        run(&block(&page, "kubectl delete clusterrolebinding,clusterrole wavegate-sync").text);
        assert_eq!(run(rights), "");
        run("kubectl -n argocd scale statefulset argocd-application-controller --replicas 1");
        run("kubectl -n argocd scale deployment wavegate --replicas 0");
        run("kubectl -n argocd scale deployment argocd-applicationset-controller --replicas 1");
        let sets = "kubectl -n argocd get applicationsets -o name";
        assert!(run(sets).contains("guestbook"), "nothing is deleted");
    })
    .await
    .unwrap();
}
