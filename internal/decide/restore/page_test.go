package restore_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/restore"
)

// A restore of etcd in place has no program that leaves objects out. Its page has commands instead, which
// look for bytes in the pods of etcd.
func TestThePageOfARestoreInPlaceFindsThePodsThatEndByThemselves(t *testing.T) {
	text, err := os.ReadFile("../../../docs/runbook/etcd-restore.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, want := range []string{restore.SuspendedOf, restore.ReclaimOf, deleted.LeavePath, strings.TrimSpace(etcdmember.Etcdctl("")), restore.Root + "pods/", `"${never:?}" -e "${onfailure:?}"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not name %s", want)
		}
	}
	var patterns []string
	for _, m := range regexp.MustCompile(`\$\(printf '([^']+)'\)`).FindAllStringSubmatch(page, -1) {
		pattern, err := strconv.Unquote(`"` + m[1] + `"`)
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, pattern)
	}
	for policy, ends := range map[corev1.RestartPolicy]bool{corev1.RestartPolicyNever: true, corev1.RestartPolicyOnFailure: true, corev1.RestartPolicyAlways: false} {
		pod := corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: policy, Containers: []corev1.Container{{Name: "a", ImagePullPolicy: corev1.PullNever}}}}
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, p := range patterns {
			found = found || strings.Contains(string(data), p)
		}
		if found != ends {
			t.Errorf("a pod with restartPolicy %s: found %v by %q", policy, found, patterns)
		}
	}
}
