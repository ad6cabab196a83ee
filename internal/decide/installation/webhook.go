package installation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// uncalled is how the API server names a webhook that it has to ask and cannot reach.
var uncalled = regexp.MustCompile(`failed calling webhook \\?"([^"\\]+)`)

// mostWebhooks is how many webhooks are named.
const mostWebhooks = 5

// WebhookHelp returns what a person can do about an error of the API that names webhooks that nobody
// answers; empty for other errors. A restored cluster has the webhooks of its backup before it has
// their pods, and these come only after the installation has gone on. kubeconfig is the path of one
// with all rights on this host. The error names the webhook, and not the configuration that has it.
func WebhookHelp(text, kubeconfig string) string {
	var names []string
	for _, m := range uncalled.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	names = slices.Compact(names)
	names = names[:min(len(names), mostWebhooks)]
	if len(names) == 0 {
		return ""
	}
	what := "webhook " + names[0]
	if len(names) > 1 {
		what = "webhooks " + strings.Join(names, " and ")
	}
	kubectl := "kubectl --kubeconfig " + kubeconfig
	return fmt.Sprintf("the API server has to ask %[1]s first, and could not. If its pods run in this cluster, they wait for this step: "+
		"set the configuration that has it aside, and this step goes on by itself. On this host, as root, "+
		"`%[2]s get validatingwebhookconfigurations,mutatingwebhookconfigurations -o custom-columns='KIND:.kind,NAME:.metadata.name,WEBHOOKS:.webhooks[*].name'` shows which one has it, "+
		"`%[2]s get KIND NAME -o yaml` prints a copy to keep, and `%[2]s delete KIND NAME` sets it aside. Bring it back once its pods run: take resourceVersion and uid out of the copy, then `%[2]s create -f COPY`", what, kubectl)
}
