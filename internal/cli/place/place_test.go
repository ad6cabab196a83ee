package place

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/labprogram"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// put writes a file of a host.
func put(t *testing.T, root, path, text string) string {
	t.Helper()
	file := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// ca is the authority of one cluster, and that of another one.
func ca(cluster string) string {
	return "-----BEGIN CERTIFICATE-----\n" + map[string]string{"one": "b25l", "two": "dHdv"}[cluster] + "\n-----END CERTIFICATE-----\n"
}

// kubeconfig writes a kubeconfig of a cluster.
func kubeconfig(t *testing.T, cluster string) string {
	t.Helper()
	dir := t.TempDir()
	authority := put(t, dir, "ca.crt", ca(cluster))
	return put(t, dir, "kubeconfig", `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],`+
		`"clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1","certificate-authority":"`+authority+`"}}],"users":[{"name":"x","user":{}}]}`)
}

// onHost returns the flags of a command line on a host of cluster one.
func onHost(t *testing.T, hosts ...string) *Flags {
	t.Helper()
	t.Setenv("KUBECONFIG", "")
	f := &Flags{root: t.TempDir(), Hosts: hosts, Exec: DefaultExec}
	put(t, f.root, site.Path, "{}")
	put(t, f.root, authority, ca("one"))
	return f
}

func TestAHostTakesPartInItsOwnClusterAlone(t *testing.T) {
	for name, c := range map[string]struct {
		flag, env string
		here      bool
	}{
		"nothing is named":                       {"", "", true},
		"a kubeconfig of its cluster":            {kubeconfig(t, "one"), "", true},
		"the environment names its cluster":      {"", kubeconfig(t, "one"), true},
		"a kubeconfig of another cluster":        {kubeconfig(t, "two"), "", false},
		"the environment names another cluster":  {"", kubeconfig(t, "two"), false},
		"the flag goes before the environment":   {kubeconfig(t, "two"), kubeconfig(t, "one"), false},
		"a kubeconfig that cannot be understood": {put(t, t.TempDir(), "x", "]"), "", false},
	} {
		f := onHost(t)
		t.Setenv("KUBECONFIG", c.env)
		f.Kubeconfig = c.flag
		p, err := f.Open(t.Context())
		if err != nil || (p.Here != nil) != c.here {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func TestAHostThatIsNamedIsAskedOnce(t *testing.T) {
	own, err := ThisHost()
	if err != nil {
		t.Fatal(err)
	}
	p, err := onHost(t, "cp-8", strings.ToUpper(own.Name)).Open(t.Context())
	if err != nil || p.Here != nil || len(p.All()) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = onHost(t, "cp-8").Open(t.Context())
	if err != nil || p.Here == nil || len(p.All()) != 2 || p.All()[1].Name != own.Name {
		t.Errorf("a host is asked beside those of --hosts: %+v, %v", p, err)
	}
}

func TestAHostReachesItsAPIWithTheBestAccountThatItHas(t *testing.T) {
	f := onHost(t)
	admin, agent, kubelet := f.file(state.AdminKubeconfig), f.file(state.AgentKubeconfig), f.file(state.KubeletKubeconfig)
	for _, c := range []struct {
		path string
		want []kube.Access
	}{
		{kubelet, []kube.Access{{Kubeconfig: kubelet}}},
		{agent, []kube.Access{{Kubeconfig: agent}, {Kubeconfig: agent, Server: ownAPI}}},
		{admin, []kube.Access{{Kubeconfig: admin}, {Kubeconfig: admin, Server: ownAPI}}},
	} {
		put(t, c.path, "", "")
		p, err := f.Open(t.Context())
		if err != nil || !slices.Equal(p.API, c.want) {
			t.Errorf("with %s: %+v, %v", c.path, p.API, err)
		}
	}
}

func TestWithoutAnAccountTheReasonIsTheAdministrators(t *testing.T) {
	f := onHost(t)
	_, err := f.OpenAPI(t.Context())
	if err == nil || !strings.Contains(err.Error(), state.AdminKubeconfig) {
		t.Errorf("%v", err)
	}
	if _, err := f.OwnAccess(t.Context()); err == nil {
		t.Error("there is no account")
	}
}

// api serves as an API server does: readyz with a code, after a wait.
func api(t *testing.T, code int, wait time.Duration) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
		}
		if r.URL.Path != "/readyz" {
			code = http.StatusNotFound
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// The way by the VIP may be dead while this host's API server serves. The commands that look
// into that have to work then.
func TestTheFirstWayThatServesIsTaken(t *testing.T) {
	const dead, never = "http://127.0.0.1:1", time.Hour
	serves, ill := api(t, http.StatusOK, 0), api(t, http.StatusInternalServerError, 0)
	for name, c := range map[string]struct {
		servers []string
		want    int
	}{
		"both serve":                    {[]string{serves, serves}, 0},
		"the first is dead":             {[]string{dead, serves}, 1},
		"the first never answers":       {[]string{api(t, http.StatusOK, never), serves}, 1},
		"the first leads to an ill one": {[]string{ill, serves}, 1},
		"none serves":                   {[]string{dead, ill}, 0},
		"there is one, which is dead":   {[]string{dead}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var p Place
			for i, server := range c.servers {
				p.API = append(p.API, kube.Access{Kubeconfig: plain(t), Server: server, Name: strconv.Itoa(i)})
			}
			if a, err := p.Access(t.Context()); err != nil || a != p.API[c.want] {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// plain writes a kubeconfig without an account.
func plain(t *testing.T) string {
	t.Helper()
	return put(t, t.TempDir(), "kubeconfig", `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],"clusters":[{"name":"x","cluster":{"server":"http://127.0.0.1:1"}}]}`)
}

func TestTheEnvironmentLeadsNoAccountOfABMCToAnotherCluster(t *testing.T) {
	f := onHost(t)
	own := put(t, f.root, state.AdminKubeconfig, "")
	t.Setenv("KUBECONFIG", kubeconfig(t, "two"))
	if a, err := f.OwnAccess(t.Context()); err != nil || a.Kubeconfig != own {
		t.Errorf("%+v, %v", a, err)
	}
	f.Kubeconfig = kubeconfig(t, "one")
	if a, err := f.OwnAccess(t.Context()); err != nil || a.Kubeconfig != f.Kubeconfig {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestElsewhereTheKubeconfigOfKubectlServes(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	before := kube.HomeKubeconfig
	t.Cleanup(func() { kube.HomeKubeconfig = before })
	kube.HomeKubeconfig = filepath.Join(t.TempDir(), "config")
	f := &Flags{root: t.TempDir(), takesLab: true}
	_, err := f.OpenAPI(t.Context())
	if _, usage := errors.AsType[*command.UsageError](err); !usage || !strings.Contains(err.Error(), "give --kubeconfig or --lab") {
		t.Errorf("%v", err)
	}
	put(t, kube.HomeKubeconfig, "", "")
	if a, err := f.OpenAPI(t.Context()); err != nil || a.Kubeconfig != kube.HomeKubeconfig {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAllMistakesOfAPlaceAreToldAtOnce(t *testing.T) {
	var f Flags
	cmd := &cobra.Command{}
	f.DeclareKubeconfig(cmd)
	f.DeclareLab(cmd)
	f.DeclareHosts(cmd)
	if err := f.Check(nil); err != nil {
		t.Errorf("without a flag: %v", err)
	}
	f = Flags{Kubeconfig: "/nowhere", Lab: "x", Hosts: []string{"cp-1", "", "cp-1"}, Exec: "ssh", takesHosts: true}
	err := f.Check(errors.New("another mistake"))
	if _, usage := errors.AsType[*command.UsageError](err); !usage {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"another mistake", "--kubeconfig: stat /nowhere", "--lab: cannot be combined", "--hosts: a name is empty", "cp-1 is named twice", "--exec: {}"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestALabHasItsHostsAndItsAPI(t *testing.T) {
	p := ofLab(labprogram.Place{NoKubeconfig: "it has no cluster", Log: "/log", Hosts: []labprogram.Host{
		{Name: "cp-1", ControlPlane: true, Root: "/proc/17/root", Exec: []string{"echo", "exec"}, Enter: []string{"echo", "enter"}},
		{Name: "cp-2", ControlPlane: true},
		{Name: "w-1", Root: "/proc/18/root"},
	}})
	if len(p.Hosts) != 3 || len(p.ControlPlanes()) != 2 || p.LabLog != "/log" || p.Hosts[0].Root == "" || p.Hosts[1].Root != "" {
		t.Errorf("%+v", p)
	}
	if _, err := p.Access(t.Context()); err == nil || err.Error() != "it has no cluster" {
		t.Errorf("%v", err)
	}
	run, err := p.Hosts[0].Run(t.Context(), "x")
	read, errRead := p.Hosts[0].Read(t.Context(), "x")
	if string(run) != "exec x\n" || string(read) != "enter x\n" || err != nil || errRead != nil {
		t.Errorf("%q %q, %v %v", run, read, err, errRead)
	}
	p = ofLab(labprogram.Place{Kubeconfig: "/k"})
	if a, err := p.Access(t.Context()); err != nil || a.Kubeconfig != "/k" {
		t.Errorf("%+v, %v", a, err)
	}
}
