package installation

import (
	"strings"
	"testing"
)

func TestAWebhookThatNobodyAnswersIsNamedWithTheWayOut(t *testing.T) {
	const kubectl = `run kubectl apply --filename x: exit status 1: Error from server (InternalError): error when creating "x/network.yaml": Internal error occurred: ` +
		`failed calling webhook "validate.kyverno.svc-fail": failed to call webhook: Post "https://kyverno-svc.kyverno.svc:443/validate?timeout=10s": no endpoints available for service "kyverno-svc"`
	for text, webhooks := range map[string]string{
		"": "", "run kubectl: exit status 1: connection refused": "", `admission webhook "policy.example.com" denied the request: no`: "",
		kubectl: "ask webhook validate.kyverno.svc-fail first",
		kubectl + "\n" + strings.ReplaceAll(kubectl, "validate.kyverno", "mutate.kyverno"): "ask webhooks mutate.kyverno.svc-fail and validate.kyverno.svc-fail first",
		strings.ReplaceAll(kubectl, `"`, `\"`):                                             "ask webhook validate.kyverno.svc-fail first",
	} {
		got := WebhookHelp(text, "/etc/kubernetes/admin.conf")
		if (got != "") != (webhooks != "") || !strings.Contains(got, webhooks) {
			t.Errorf("%q: %q, want %q", text, got, webhooks)
		}
		if got != "" && (!strings.Contains(got, "`kubectl --kubeconfig /etc/kubernetes/admin.conf delete KIND NAME`") || len(got) > 1<<10) {
			t.Errorf("it does not say what to type, or is long: %q", got)
		}
	}
}
