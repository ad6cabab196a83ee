package site_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

const proxy = "proxy: {httpProxy: \"http://clerk:hush-proxy@10.98.0.9:3128\", noProxy: \" .example.org, 10.98.0.0/24\"}\n"

func TestTheProxyIsNotUsedForTheClustersOwn(t *testing.T) {
	const want = ".apps.shop.example.test,.cluster.local,.example.org,.svc,10.128.0.0/14,10.98.0.0/24,127.0.0.1,172.30.0.0/16,::1," +
		"api-int.shop.example.test,api.shop.example.test,fd44::/56,fd96::/112,fd98::/64,localhost"
	s := sitetest.New(t, sitetest.TwoDual+proxy)
	if got := s.Config.NoProxy(); got != want {
		t.Errorf("got %s", got)
	}
	env := []string{
		"HTTP_PROXY=http://clerk:hush-proxy@10.98.0.9:3128", "http_proxy=http://clerk:hush-proxy@10.98.0.9:3128",
		"NO_PROXY=" + want, "no_proxy=" + want,
	}
	if diff := cmp.Diff(env, s.ProxyEnv()); diff != "" {
		t.Error(diff)
	}
}

func TestAStarTurnsTheProxyOff(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual+strings.ReplaceAll(proxy, ".example.org", "*"))
	if got := s.Config.NoProxy(); got != "*" {
		t.Errorf("got %s", got)
	}
}

func TestWithoutAProxyNothingIsSet(t *testing.T) {
	if env := sitetest.New(t, sitetest.TwoDual).ProxyEnv(); env != nil {
		t.Errorf("got %v", env)
	}
}

// A worker pulls the release like any host.
func TestAWorkerKnowsTheReleasesRegistryAndNoOther(t *testing.T) {
	s := sitetest.New(t, sitetest.OneNone+`releaseRegistry: mirror.example.test:5000/holdfast/release
pullSecret: '{"auths":{"mirror.example.test:5000":{"auth":"YTptaXJyb3I="},"other.example.test":{"auth":"YTpvdGhlcg=="}}}'
`)
	own := s.For(state.RoleWorker)
	if got, want := own.Config.PullSecret.Reveal(), `{"auths":{"mirror.example.test:5000":{"auth":"YTptaXJyb3I="}}}`; got != want {
		t.Errorf("got %s", got)
	}
	s.Config.ReleaseRegistry = ""
	if own = s.For(state.RoleWorker); own.Config.PullSecret != secret.Text("") {
		t.Error("without a registry the worker has a pull secret")
	}
}

// TestTheFilesAboutTheWayOutAreThereWithoutOneToo: as a line of comment.
func TestTheFilesAboutTheWayOutAreThereWithoutOneToo(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	for _, f := range []state.File{site.ProxyFile(s.Config), site.TrustFile(s.Config)} {
		if text := string(f.Data); !strings.HasPrefix(text, "# ") || strings.Count(text, "\n") != 1 || !site.OfAProxy(f.Data) || state.HasAuthorities(f.Data) {
			t.Errorf("%s: %q", f.Path, text)
		}
	}
	s = sitetest.New(t, sitetest.TwoDual+strings.ReplaceAll(proxy, "hush-proxy", `hush%5C%22`))
	s.Config.Proxy.HTTPSProxy = `http://a"b\c`
	f := site.ProxyFile(s.Config)
	if text := string(f.Data); f.Perm() != state.SecretFileMode || !strings.Contains(text, "\nHTTPS_PROXY=\"http://a\\\"b\\\\c\"\n") || !site.OfAProxy(f.Data) {
		t.Errorf("%o %s", f.Perm(), text)
	}
}

// TestAFileOfAProxySetsNothingElse in the environment of programs that run as root.
func TestAFileOfAProxySetsNothingElse(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "# words\n\n": true, "NO_PROXY=\"a\"\nhttp_proxy=\"\"\n": true, `https_proxy="a\\\"b"`: true,
		"LD_PRELOAD=\"/x\"": false, "NO_PROXY=\"a\"\nLD_PRELOAD=\"/x\"": false, "NO_PROXY=a": false, "NO_PROXY=\"a": false, `NO_PROXY="a\"`: false,
		"NO_PROXY=\"a\"b": false, " NO_PROXY=\"a\"": false, "MY_NO_PROXY=\"a\"": false, `NO_PROXY="a\n"`: false,
	} {
		if got := site.OfAProxy([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
