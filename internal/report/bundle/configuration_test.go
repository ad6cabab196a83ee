package bundle

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestOfAConfigurationOnlyItsSkeletonIsShown: also of fields that nobody knows.
func TestOfAConfigurationOnlyItsSkeletonIsShown(t *testing.T) {
	text := strings.ReplaceAll(configurations, "PLANTED", "planted-in-base64")
	text = strings.Replace(text, "config:\n", "config:\n    unknown: {deep: [planted-in-unknown]}\n", 1)
	var all strings.Builder
	for document := range strings.SplitSeq(text, "---\n") {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		hideContents(o)
		shown, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(shown)
	}
	if strings.Contains(all.String(), "planted") {
		t.Error(all.String())
	}
	for _, kept := range []string{"/etc/containerd/certs.d/registry.example/hosts.toml", "probe.service", "10-a.conf", `"enabled":true`, `"mode":384`, "nosmt", `"maxPods":150`, "role", `"name":"core"`} {
		if !strings.Contains(all.String(), kept) {
			t.Errorf("without %s: %s", kept, all.String())
		}
	}
	hideContents(map[string]any{"spec": "damaged"})
	hideContents(map[string]any{})
}
