package twonode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	token    = "t0ken-of-the-test-abcdef"
	password = "s3cret-of-the-bmc"
)

func input() twonode.Input {
	return twonode.Input{
		Cluster: "pcm", Self: "cp-1", Token: token, Manifest: "kind: Pod\n",
		Nodes: []twonode.Node{{Name: "cp-1", Address: "10.98.0.11"}, {Name: "cp-2", Address: "10.98.0.12"}},
		Fencing: []state.FencingDevice{
			{Target: "cp-1", Address: "https://10.99.0.111/redfish/v1/Systems/1", Username: "admin", Password: password, Delay: 20 * time.Second},
			{Target: "cp-2", Address: "https://10.99.0.112/redfish/v1/Systems/1", Username: "admin", Password: password},
		},
	}
}

// stand plays a host whose programs are Go functions.
type stand struct {
	*Host
	t    *testing.T
	out  bytes.Buffer
	runs []string
	// programs maps the beginning of a command line to its answer.
	programs map[string]func(args []string) (string, error)
}

func newStand(t *testing.T) *stand {
	s := &stand{t: t, programs: map[string]func([]string) (string, error){}}
	s.Host = &Host{
		Root: t.TempDir(), Wait: time.Minute, Run: s.run,
		Sleep:        func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) },
		WriteDevices: func(context.Context, records.Files, []state.FencingDevice) error { return nil },
		Status: func(context.Context) (pacemaker.Status, error) {
			return pacemaker.Status{}, errors.New("Pacemaker does not run")
		},
		Report:    func(context.Context) (state.EtcdReport, error) { return state.EtcdReport{}, errors.New("no agent") },
		Container: func(context.Context) (podman.Process, error) { return podman.Process{}, nil },
		Listens:   func(context.Context, string) bool { return false },
	}
	s.Out = &s.out
	s.put("/etc/passwd", "root:x:0:0::/:/bin/sh\nhacluster:x:101:103::/:/bin/false\n")
	return s
}

func (s *stand) run(_ context.Context, c host.Cmd) ([]byte, error) {
	line := strings.ReplaceAll(c.String(), s.Root, "")
	s.runs = append(s.runs, line)
	for beginning, program := range s.programs {
		if strings.HasPrefix(line, beginning) {
			out, err := program(c.Args)
			if err != nil {
				err = &host.RunError{Cmd: c, ExitCode: 1, Err: err}
			}
			return []byte(out), err
		}
	}
	return nil, nil
}

func (s *stand) put(path, text string) {
	s.t.Helper()
	if err := host.WriteFileAtomic(filepath.Join(s.Root, path), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) text(path string) string {
	data, err := os.ReadFile(filepath.Join(s.Root, path))
	if err != nil {
		return ""
	}
	return string(data)
}

// ran reports whether a command line with this beginning was run.
func (s *stand) ran(beginning string) bool {
	for _, line := range s.runs {
		if strings.HasPrefix(line, beginning) {
			return true
		}
	}
	return false
}

func (s *stand) do(step twonode.Step) error {
	s.t.Helper()
	s.runs = nil
	return s.Do(s.t.Context(), step, input())
}

func TestADryRunChangesNothing(t *testing.T) {
	for _, step := range Steps() {
		t.Run(string(step), func(t *testing.T) {
			s := newStand(t)
			s.put(staticPod, "kind: Pod\n")
			s.put("/etc/kubernetes/static-pod-resources/etcd-certs/configmaps/external-etcd-pod/pod.yaml", "kind: Old\n")
			before := tree(t, s.Root)
			s.DryRun = true
			s.programs["cibadmin"] = func([]string) (string, error) { return "", errors.New("not connected") }
			if err := s.do(step); err != nil {
				t.Fatal(err)
			}
			if after := tree(t, s.Root); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			for _, line := range s.runs {
				if line != "cibadmin --query" {
					t.Errorf("it ran %s", line)
				}
			}
			if s.out.Len() == 0 || strings.Contains(s.out.String(), token) || strings.Contains(s.out.String(), password) {
				t.Errorf("it said:\n%s", &s.out)
			}
		})
	}
}

func tree(t *testing.T, root string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			data, readErr := os.ReadFile(path)
			fmt.Fprintf(&out, "%s %x\n", path, data)
			return readErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestAHostInSomebodysClusterIsLeftAlone(t *testing.T) {
	const theirs = "totem {\n cluster_name: theirs\n}\nnodelist {\n node {\n ring0_addr: 10.0.0.1\n name: db-1\n }\n}\nquorum {\n two_node: 1\n}\n"
	for _, step := range []twonode.Step{twonode.Auth, twonode.Setup} {
		s := newStand(t)
		s.put(corosyncConf, theirs)
		err := s.do(step)
		if err == nil || !strings.Contains(err.Error(), `"theirs"`) || len(s.runs) != 0 || s.text(corosyncConf) != theirs {
			t.Errorf("%s: %v, ran %v", step, err, s.runs)
		}
	}
}

func TestAHostIsGivenItsPeersDeviceOnly(t *testing.T) {
	for self, peer := range map[string]string{"cp-1": "cp-2", "cp-2": "cp-1"} {
		s := newStand(t)
		var given []string
		s.WriteDevices = func(_ context.Context, files records.Files, devices []state.FencingDevice) error {
			for _, d := range devices {
				given = append(given, strings.TrimPrefix(files.Path(state.FencingDir), s.Root)+" "+d.Target+" "+d.Password)
			}
			return nil
		}
		in := input()
		in.Self = self
		if err := s.Do(t.Context(), twonode.Fencing, in); err != nil {
			t.Fatal(err)
		}
		if want := state.FencingDir + " " + peer + " " + password; strings.Join(given, ",") != want {
			t.Errorf("%s was given %v", self, given)
		}
	}
}

func TestABMCThatRefusesFailsTheStepWithItsWords(t *testing.T) {
	s := newStand(t)
	s.WriteDevices = func(_ context.Context, _ records.Files, d []state.FencingDevice) error {
		return fmt.Errorf("401 for %s/%s", d[0].Username, d[0].Password)
	}
	if err := s.do(twonode.Fencing); err == nil || err.Error() != "fencing: 401 for admin/***" {
		t.Error(err)
	}
}

func TestTheManifestIsWrittenOnce(t *testing.T) {
	s := newStand(t)
	s.put(staticPod, "kind: Pod\n") // kubelet runs etcd still
	if err := s.do(twonode.Manifest); err != nil {
		t.Fatal(err)
	}
	if err := s.do(twonode.Manifest); err != nil || strings.Count(s.out.String(), "write ") != 1 {
		t.Errorf("%v\n%s", err, &s.out)
	}
}

func TestAHostMeetsItsPeerAfterABootBeforeEtcdLeavesKubeletAnywhere(t *testing.T) {
	s := newStand(t)
	s.put(staticPod, "kind: Pod\n")
	if err := s.do(twonode.Manifest); err != nil || !s.ran("systemctl enable --quiet corosync.service pacemaker.service") {
		t.Errorf("%v, ran %v", err, s.runs)
	}
}

func TestFinishTouchesNothingThatRuns(t *testing.T) {
	s := newStand(t)
	if err := s.do(twonode.Finish); err != nil {
		t.Fatal(err)
	}
	for _, line := range s.runs {
		if strings.Contains(line, "--now") || strings.Contains(line, " stop ") || strings.Contains(line, " start ") {
			t.Errorf("it ran %s", line)
		}
	}
	if !s.ran("systemctl disable --quiet kubelet.service") || !s.ran("systemctl daemon-reload") {
		t.Errorf("ran %v", s.runs)
	}
	if !strings.HasPrefix(s.runs[0], "systemctl enable --quiet corosync.service") {
		t.Errorf("a host that loses its power after %s starts nothing at boot", s.runs[0])
	}
}

func TestFinishLeavesPacemakersOwnOrderAlone(t *testing.T) {
	s := newStand(t)
	const own = "[Unit]\nDescription=Cluster Controlled kubelet\n"
	s.put(kubeletOrder, own)
	if err := s.do(twonode.Finish); err != nil {
		t.Fatal(err)
	}
	if have, err := s.read(kubeletOrder); err != nil || string(have) != own {
		t.Errorf("%v: %q", err, have)
	}
}

func TestAnOperatorOfALaterReleaseMayWriteAFieldMoreButNoHigherNumber(t *testing.T) {
	text, err := os.ReadFile("testdata/step-input-1.json")
	if err != nil {
		t.Fatal(err)
	}
	with := func(field string) string { return strings.Replace(string(text), "{", "{"+field+",", 1) }
	for text, want := range map[string]string{
		string(text): "", with(`"format":1`): "", with(`"later":{"a":[1]}`): "",
		with(`"format":2`): "a later release has written it", with(`"format":"x"`): "format is a string",
	} {
		got, err := ReadInput(strings.NewReader(text), twonode.Auth)
		switch {
		case want == "" && (err != nil || got.Cluster != "pcm" || got.Token != token || len(got.Fencing) != 2):
			t.Errorf("%+v, %v", got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestTheFormOfAStepsInputIsThatWhichOtherReleasesRead(t *testing.T) {
	got, err := json.MarshalIndent(input(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/step-input-1.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got)+"\n" {
		t.Errorf("releases know another form: give it the next number\n%s", got)
	}
}

func TestAnInputThatCannotBeReadIsNotQuoted(t *testing.T) {
	for _, text := range []string{
		`{"token": "` + token + `", "nodez": []}`, `{"token": 17`, `{"token": {"a": "` + token + `"}}`, token, "",
	} {
		_, err := ReadInput(strings.NewReader(text), twonode.Auth)
		if err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
