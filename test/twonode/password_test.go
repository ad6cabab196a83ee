package twonode_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The passwords that somebody secretly sets at a BMC. They contain the
// characters that break wrong quoting.
const (
	setAtTheBMC    = `beh1nd the $cluster's "back"`
	setWithoutAPI  = `& again; without an \API`
	passwordOnHost = "/run/password-of-the-bmc"
)

const (
	// checkInterval is the interval of Pacemaker's monitor of a fence device
	// (decide/twonode).
	checkInterval = time.Minute
	// checkTakes is the time of the check itself, in Pacemaker and the
	// collector, on a busy machine.
	checkTakes = 15 * time.Second
	// worksWithin bounds the time until a device works after its account is
	// right again: it is tried at once.
	worksWithin = 30 * time.Second
	// secretFollows bounds the time until an API that comes back has a changed
	// account. The API has to start, and is looked for every half minute.
	secretFollows = 3 * time.Minute
)

// TestBMCPasswordChanged changes the password of a BMC without the cluster's
// knowledge. That must be visible within one check interval, raise its alert,
// and end with `holdfast fencing rotate`, with an API and without.
func TestBMCPasswordChanged(t *testing.T) {
	scenario(t, "BMC: password changed", 1, func(tr *trial) {
		target := "cp-2"
		tr.byName = true
		tr.see() // this test is about what people are told, whatever the flags say
		defer tr.restoresAccount(target)
		tr.changesPassword(target, setAtTheBMC)
		tr.measured("the API shows that "+target+" cannot be fenced", checkInterval+checkTakes, func() error {
			return tr.inAPI(target, "False", etcdv1.NodeFencingAvailableConditionType)
		})
		tr.measured("the alert is raised", checkTakes, func() error { return tr.alerted(target, true) })
		tr.statusSays(target, "cannot be fenced", "API at ")
		if got := tr.rotates(target, setAtTheBMC); got != "written" {
			tr.Errorf("the Secret is %s", got)
		}
		tr.allClear(target, setAtTheBMC)
		tr.fenced(0)
	})
	scenario(t, "BMC: password changed, without API", 1, func(tr *trial) {
		target := "cp-2"
		tr.byName = true
		tr.see() // this test is about what people are told, whatever the flags say
		defer tr.restoresAccount(target)
		defer tr.serversRun()
		tr.serversEnd()
		tr.changesPassword(target, setWithoutAPI)
		tr.measured("the other host knows that "+target+" cannot be fenced", checkInterval+checkTakes, func() error {
			return tr.onHost(target, "False", etcdv1.NodeFencingAvailableConditionType)
		})
		tr.measured("the alert is raised", checkTakes, func() error { return tr.alerted(target, true) })
		tr.statusSays(target, "cannot be fenced", "no data")
		if got := tr.rotates(target, setWithoutAPI); !strings.HasPrefix(got, "pending: ") {
			tr.Errorf("without an API the Secret is %s", got)
		}
		tr.measured("the other host can fence "+target+" again", worksWithin, func() error {
			return tr.onHost(target, "True", fencingConditions...)
		})
		tr.serversRun()
		tr.measured("the Secret has followed", secretFollows, func() error {
			// The old password from the cluster's Secret must not come here.
			if err := tr.deviceHas(target, setWithoutAPI); err != nil {
				tr.Fatal(err)
			}
			return tr.secretHas(target, setWithoutAPI)
		})
		tr.allClear(target, setWithoutAPI)
		if out := tr.on(tr.other(target), "holdfast fencing rotate --push"); !strings.Contains(out, "Secrets written: -") {
			tr.Errorf("a Secret was still pending: %s", out)
		}
		tr.fenced(0)
	})
}

// fencingConditions are the conditions of a node whose BMC works.
var fencingConditions = []string{
	etcdv1.NodeFencingAvailableConditionType, etcdv1.NodeFencingHealthyConditionType, pacemakerstatus.FencingProven,
}

// changesPassword makes the BMC of a host accept another password only.
func (tr *trial) changesPassword(target, password string) {
	tr.Helper()
	tr.fault(lab.Fault{Kind: lab.FaultBMC, Host: target, Quirk: "password", Value: password})
}

// restoresAccount restores the account that the lab knows, however the scenario
// ends: the next one needs a BMC that fences.
func (tr *trial) restoresAccount(target string) {
	tr.Helper()
	if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{}); err != nil {
		tr.Error(err)
	}
	h, _ := tr.Lab.Layout.Host(target)
	if tr.deviceHas(target, h.BMC.Password) == nil {
		return
	}
	if _, err := tr.rotate(target, h.BMC.Password); err != nil {
		tr.Error(err)
	}
}

// The path of the API server's manifest, and its path while there must be no
// API server. kubelet would restart a server that is only stopped.
const (
	apiServer     = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	apiServerAway = "/etc/kubernetes/kube-apiserver.yaml.away"
)

// staysAway keeps the agent from putting a file back that somebody takes away, and mayReturn ends
// that.
func staysAway(path string) string { return "echo " + path + " > " + deleted.LeavePath }

const mayReturn = "rm -f " + deleted.LeavePath

// serversEnd ends the API servers of both hosts cleanly.
func (tr *trial) serversEnd() {
	tr.Helper()
	tr.now()
	for _, h := range tr.hosts() {
		tr.on(h, staysAway(apiServer)+"; mv "+apiServer+" "+apiServerAway)
	}
	tr.eventually(wholeWithin, "there is no API server", func() error {
		for _, h := range tr.hosts() {
			if list := tr.processes(h, "kube-apiserver"); len(list) > 0 {
				return fmt.Errorf("one runs on %s: %v", h, list)
			}
		}
		return nil
	})
	if out, err := tr.kubectl(tr.Context(), "get", "--raw", "/readyz"); err == nil {
		tr.Fatalf("there is an API still: %s", out)
	}
}

// serversRun brings back those that are missing.
func (tr *trial) serversRun() {
	tr.Helper()
	tr.ended = time.Now()
	for _, h := range tr.hosts() {
		if out, err := tr.Sh(tr.Context(), h, mayReturn+"; if [ -e "+apiServerAway+" ]; then mv "+apiServerAway+" "+apiServer+"; fi"); err != nil {
			tr.Errorf("%s: %v: %s", h, err, out)
		}
	}
}

// measured waits for a condition and logs the time that it took.
func (tr *trial) measured(what string, within time.Duration, check func() error) {
	tr.Helper()
	began := time.Now()
	tr.eventually(within, what, check)
	tr.Logf("%s after %.1f s, %.1f s after the fault", what, time.Since(began).Seconds(), time.Since(tr.at).Seconds())
}

// inAPI returns an error that names those conditions of a node that differ in
// the API.
func (tr *trial) inAPI(node, want string, kinds ...string) error {
	values := tr.seen.api.Current().Values
	var errs []error
	for _, kind := range kinds {
		if got := values["node "+node+": "+kind]; !strings.HasPrefix(got, want+" ") {
			errs = append(errs, fmt.Errorf("%s of %s is %q", kind, node, got))
		}
	}
	return errors.Join(errs...)
}

// onHost does the same for the own knowledge of the host that fences a node.
func (tr *trial) onHost(node, want string, kinds ...string) error {
	var r pacemakerstatus.Report
	if err := tr.readOn(tr.other(node), pacemakerstatus.LivePath, &r); err != nil {
		return err
	}
	if r.Status.Nodes == nil {
		return errors.New("it knows no nodes")
	}
	i := slices.IndexFunc(*r.Status.Nodes, func(n etcdv1.PacemakerClusterNodeStatus) bool { return n.NodeName == node })
	if i < 0 {
		return fmt.Errorf("it knows no %s", node)
	}
	got := map[string]string{}
	for _, c := range (*r.Status.Nodes)[i].Conditions {
		got[c.Type] = string(c.Status)
	}
	var errs []error
	for _, kind := range kinds {
		if got[kind] != want {
			errs = append(errs, fmt.Errorf("%s of %s is %q on %s", kind, node, got[kind], tr.other(node)))
		}
	}
	return errors.Join(errs...)
}

func (tr *trial) readOn(host, path string, into any) error {
	root, err := tr.Lab.Root(tr.Context(), tr.Power, host)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// alertNow is the greatest age of an alert's last sample in Prometheus at which
// the alert still counts as present.
const alertNow = 5 * time.Second

// alerted returns an error unless the alert about a host's fencing is as
// wanted. Only the rule's expression counts, not the time for which it must
// hold.
func (tr *trial) alerted(host string, want bool) error {
	list, err := tr.seen.prometheus.Alerts(tr.Context())
	if err != nil {
		return err
	}
	there := false
	for _, a := range list {
		there = there || a.Name == "HoldfastNodeFencingUnavailable" && a.Labels["host"] == host && time.Since(a.Until) < alertNow
	}
	if there != want {
		return fmt.Errorf("HoldfastNodeFencingUnavailable of %s is there: %t", host, there)
	}
	return nil
}

// statusTime bounds the answer of `holdfast status` on a busy machine, whatever
// hangs. Elsewhere the bound is two seconds.
const statusTime = 6 * time.Second

// statusSays checks the output of `holdfast status` on the host that fences the
// target.
func (tr *trial) statusSays(target string, want ...string) {
	tr.Helper()
	began := time.Now()
	out := tr.on(tr.other(target), "holdfast status; echo exit code $?")
	if took := time.Since(began); took > statusTime {
		tr.Errorf("holdfast status took %s", took)
	}
	for _, w := range append(want, target, "holdfast fencing rotate", "exit code 3") {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), w) {
			tr.Errorf("holdfast status does not say %q:\n%s", w, out)
		}
	}
}

// rotates gives the host that fences the target the new password, and returns
// the result for the Secret.
func (tr *trial) rotates(target, password string) string {
	tr.Helper()
	secret, err := tr.rotate(target, password)
	if err != nil {
		tr.Fatal(err)
	}
	return secret
}

// rotate brings the password to the host in a file, because others can read a
// command line.
func (tr *trial) rotate(target, password string) (secret string, err error) {
	by := tr.other(target)
	root, err := tr.Lab.Root(tr.Context(), tr.Power, by)
	if err != nil {
		return "", err
	}
	file := filepath.Join(root, passwordOnHost)
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		return "", err
	}
	out, err := tr.Sh(tr.Context(), by, "holdfast fencing rotate "+target+" --password-file "+passwordOnHost+" -o json")
	if err := cmp.Or(err, os.Remove(file)); err != nil {
		return "", fmt.Errorf("rotate the account of %s on %s: %w", target, by, err)
	}
	if strings.Contains(out, password) {
		return "", errors.New("fencing rotate prints the password")
	}
	var said struct{ Secret string }
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		return "", fmt.Errorf("fencing rotate says %q: %w", out, err)
	}
	return said.Secret, nil
}

// allClear waits until no trace of the change is left, and checks that all have
// the password.
func (tr *trial) allClear(target, password string) {
	tr.Helper()
	tr.measured("all clear in the API", worksWithin, func() error { return tr.inAPI(target, "True", fencingConditions...) })
	tr.measured("no alert is left", worksWithin, func() error { return tr.alerted(target, false) })
	tr.on(tr.other(target), "holdfast fencing verify")
	if err := errors.Join(tr.deviceHas(target, password), tr.secretHas(target, password)); err != nil {
		tr.Error(err)
	}
	tr.ended = time.Now()
}

// deviceHas returns an error if the host that fences the target has another
// password.
func (tr *trial) deviceHas(target, password string) error {
	var dev state.FencingDevice
	by := tr.other(target)
	if err := tr.readOn(by, filepath.Join(state.FencingDir, target+".json"), &dev); err != nil {
		return fmt.Errorf("device of %s on %s: %w", target, by, err)
	}
	if dev.Password != password {
		return fmt.Errorf("the device of %s on %s has another password", target, by)
	}
	return nil
}

// secretHas returns an error if the cluster has another one. Plain Kubernetes
// has no BareMetalHost that could have a third.
func (tr *trial) secretHas(target, password string) error {
	out, err := tr.kubectl(tr.Context(), "get", "secret", "--namespace=openshift-etcd", "fencing-credentials-"+target, "--output=jsonpath={.data.password}")
	if err != nil {
		return err
	}
	got, err := base64.StdEncoding.DecodeString(strings.TrimSpace(out))
	if err != nil {
		return fmt.Errorf("secret of %s: %w", target, err)
	}
	if string(got) != password {
		return fmt.Errorf("the Secret of %s has another password", target)
	}
	return nil
}
