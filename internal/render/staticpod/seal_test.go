package staticpod

import (
	"slices"
	"strings"
	"testing"
)

// TestAnEtcdThatIsSealedIsToldThatItIsTheOnlyMemberOfAClusterThatExists: docs/adr/0109. What etcd does
// with these flags is shown in adapter/etcd.
func TestAnEtcdThatIsSealedIsToldThatItIsTheOnlyMemberOfAClusterThatExists(t *testing.T) {
	first := string(read(t, "etcd"))
	const alone = "    - --initial-cluster=cp-1=https://10.98.0.11:2380\n"
	const all = "    - --initial-cluster=cp-1=https://10.98.0.11:2380,cp-2=https://10.98.0.12:2380\n"
	for name, was := range map[string]string{
		"of the first host":     first,
		"of one that joined":    strings.Replace(first, alone, all+"    - --initial-cluster-state=existing\n", 1),
		"of a plan, with data":  strings.Replace(first, alone, all, 1),
		"told that it is a new": strings.Replace(first, alone, alone+"    - --initial-cluster-state=new\n", 1),
		"with a quota":          string(read(t, "etcd-quota")),
	} {
		if Sealed([]byte(was)) {
			t.Errorf("%s: it is sealed before", name)
		}
		out, err := Seal([]byte(was))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		lines := strings.Split(string(out), "\n")
		for _, line := range []string{strings.TrimSuffix(alone, "\n"), "    - --initial-cluster-state=existing"} {
			if i := slices.Index(lines, line); i < 0 {
				t.Errorf("%s: %q is missing:\n%s", name, line, out)
			}
		}
		if strings.Count(string(out), "--initial-cluster=")+strings.Count(string(out), "--initial-cluster-state=") != 2 || !Sealed(out) {
			t.Errorf("%s:\n%s", name, out)
		}
		for line := range strings.SplitSeq(was, "\n") {
			if !strings.Contains(line, "--initial-cluster") && !slices.Contains(lines, line) {
				t.Errorf("%s: it lost %q", name, line)
			}
		}
	}
}

func TestAPodOfWhichNobodyKnowsItsMemberIsNotSealed(t *testing.T) {
	etcd := string(read(t, "etcd"))
	for name, manifest := range map[string]string{
		"another program": string(read(t, "kube-scheduler")),
		"no name":         strings.Replace(etcd, "    - --name=cp-1\n", "", 1),
		"no peer URL":     strings.Replace(etcd, "    - --initial-advertise-peer-urls=https://10.98.0.11:2380\n", "", 1),
		"no manifest":     "\t",
		"empty":           "",
	} {
		if out, err := Seal([]byte(manifest)); err == nil || Sealed([]byte(manifest)) {
			t.Errorf("%s: it is sealed:\n%s", name, out)
		}
	}
}

func TestAMemberWithSeveralPeerURLsIsSealedWithAllOfThem(t *testing.T) {
	etcd := strings.Replace(string(read(t, "etcd")), "peer-urls=https://10.98.0.11:2380\n", "peer-urls=https://10.98.0.11:2380,https://10.99.0.11:2380\n", 1)
	out, err := Seal([]byte(etcd))
	if err != nil || !strings.Contains(string(out), "--initial-cluster=cp-1=https://10.98.0.11:2380,cp-1=https://10.99.0.11:2380\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
