package site

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ProxyEnv returns the site's proxy as environment variables, NAME=value, in
// both spellings that programs read; none without a proxy. They may hold a
// password.
func (s *Site) ProxyEnv() []string { return proxyEnv(s.Config) }

func proxyEnv(c *config.InstallConfig) []string {
	p := c.Proxy
	if p == nil {
		return nil
	}
	var out []string
	for _, v := range []struct{ name, value string }{
		{"HTTP_PROXY", p.HTTPProxy}, {"HTTPS_PROXY", p.HTTPSProxy}, {"NO_PROXY", c.NoProxy()},
	} {
		if v.value != "" {
			out = append(out, v.name+"="+v.value, strings.ToLower(v.name)+"="+v.value)
		}
	}
	return out
}

// ProxyFile returns the file by which the units of a host know the site's proxy. The
// installation and the configuration of a pool write the same bytes.
func ProxyFile(c *config.InstallConfig) state.File {
	data := []byte("# This site has no proxy.\n")
	if env := proxyEnv(c); len(env) > 0 {
		data = environment(env)
	}
	return state.File{Path: state.ProxyPath, Data: data, Mode: state.SecretFileMode}
}

// TrustFile returns the file with the authorities that a site adds. The same holds of it.
func TrustFile(c *config.InstallConfig) state.File {
	data := []byte("# This site adds no authorities.\n")
	if c.AdditionalTrustBundle != "" {
		data = []byte(c.AdditionalTrustBundle)
	}
	return state.File{Path: state.TrustPath, Data: data, Mode: state.DefaultFileMode}
}

// environment formats NAME=value variables for systemd.
func environment(vars []string) []byte {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var out strings.Builder
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&out, "%s=\"%s\"\n", name, escape.Replace(value))
	}
	return []byte(out.String())
}

// proxyLine matches a line that environment writes of a proxy.
var proxyLine = regexp.MustCompile(`^(HTTP_PROXY|HTTPS_PROXY|NO_PROXY|http_proxy|https_proxy|no_proxy)="([^"\\]|\\["\\])*"$`)

// OfAProxy reports whether the contents of a file set nothing but a proxy: what stands
// there is in the environment of programs that run as root.
func OfAProxy(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && line[0] != '#' && !proxyLine.MatchString(line) {
			return false
		}
	}
	return true
}
