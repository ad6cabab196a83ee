package cli

import (
	"crypto/tls"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// madeSite makes an install directory, and serves its hosts' progress like a
// control plane.
func madeSite(t *testing.T, hosts ...state.Progress) (dir, address string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, installer.ConfigFile), []byte(sitetest.TwoDual), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runLine(t, "create", "ignition-configs", "--dir", dir); code != ExitOK {
		t.Fatal(errs)
	}
	s, err := (&installer.Installer{Dir: dir}).Made()
	if err != nil {
		t.Fatal(err)
	}
	store := configserver.NewMemory()
	for _, p := range hosts {
		if err := store.Put(p); err != nil {
			t.Fatal(err)
		}
	}
	certificate, err := keys.Serving(s, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(configserver.New(configserver.Options{
		Progress: store, ReadToken: s.Identity.ProgressToken,
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return dir, server.Listener.Addr().String()
}

// nowhere is an address without an API.
const nowhere = "https://127.0.0.1:1"

func report(host string, role state.Role, complete bool, trouble string) state.Progress {
	return state.Progress{Host: host, Role: role, Complete: complete, Error: trouble, Steps: []state.Step{{Name: "join control plane", State: state.StepRunning}}}
}

func TestWaitForShowsTheHostsAndEndsWithTheInstallation(t *testing.T) {
	dir, address := madeSite(t, report("cp-1", state.RoleBootstrap, true, ""), report("cp-2", state.RoleMaster, true, ""))
	code, out, errs := runLine(t, "wait-for", "install-complete", "--dir", dir, "--config-server", address, "--api", nowhere)
	if code != ExitOK || !strings.Contains(out, "install-complete after 0 s; try:\n  kubectl --kubeconfig "+dir+"/auth/kubeconfig get nodes\n") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if !strings.Contains(out, "\n  holdfast fencing verify --hosts cp-1,cp-2 --disruptive --calibrate\n") {
		t.Errorf("nothing is said of the proof that fencing needs: %s", out)
	}
	if !strings.Contains(errs, "cp-1       is ready\n") || strings.Contains(errs, "\x1b") {
		t.Errorf("shown: %q", errs)
	}
}

func TestWaitForSaysWhatAHostIsStuckAt(t *testing.T) {
	dir, address := madeSite(t, report("cp-1", state.RoleBootstrap, false, "kubeadm: no route to host"))
	line := []string{"wait-for", "bootstrap-complete", "--dir", dir, "--config-server", address, "--api", nowhere, "--timeout", "0s"}
	code, out, errs := runLine(t, line...)
	want := "holdfast: not bootstrap-complete after 0s: cp-1 tries join control plane again: kubeadm: no route to host; 1 control plane has not reported yet\n"
	if code != ExitFailed || out != "" || !strings.HasSuffix(errs, want) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, out, _ = runLine(t, append(line, "-o", "json")...)
	var o installer.Outcome
	if err := json.Unmarshal([]byte(out), &o); err != nil || code != ExitFailed || o.Complete || len(o.Open) != 2 || o.Hosts[0].Error == "" {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}

func TestWaitForRefusesWhatCannotBeMeant(t *testing.T) {
	empty := t.TempDir()
	dir, _ := madeSite(t)
	for _, c := range []struct{ line, want string }{
		{"wait-for", ""},
		{"wait-for nothing", `unknown command "nothing"`},
		{"wait-for install-complete --dir " + empty, "nothing was made in " + empty + " yet: run 'holdfast create ignition-configs --dir " + empty + "' first"},
		{"wait-for install-complete --dir " + dir + " --api 127.0.0.1 --config-server x --timeout -1s", "--api \"127.0.0.1\": must be https://HOST[:PORT]\n--config-server \"x\": must be HOST:PORT\n--timeout -1s: must not be negative"},
		{"wait-for install-complete -o yaml", `output "yaml": must be text or json`},
	} {
		code, _, errs := runLine(t, strings.Fields(c.line)...)
		if want := ExitUsage; c.want != "" && (code != want || !strings.Contains(errs, c.want)) {
			t.Errorf("%s: exit code %d, %s", c.line, code, errs)
		}
	}
}
