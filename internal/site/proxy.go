package site

import (
	"slices"
	"strings"
)

// NoProxy returns what hosts reach without the site's proxy, joined by commas:
// themselves, the cluster's names and networks, the virtual IPs' networks among
// them, and what the person added.
func (s *Site) NoProxy() string {
	n := s.Config.Networking
	list := []string{"localhost", "127.0.0.1", "::1", ".svc", ".cluster.local", "." + s.Domain(), s.APIName()}
	for _, m := range n.MachineNetwork {
		list = append(list, m.CIDR)
	}
	for _, c := range n.ClusterNetwork {
		list = append(list, c.CIDR)
	}
	list = append(list, n.ServiceNetwork...)
	if p := s.Config.Proxy; p != nil {
		for own := range strings.SplitSeq(p.NoProxy, ",") {
			if own = strings.TrimSpace(own); own != "" && !slices.Contains(list, own) {
				list = append(list, own)
			}
		}
	}
	if slices.Contains(list, "*") {
		return "*" // only alone it means everything
	}
	return strings.Join(list, ",")
}

// ProxyEnv returns the site's proxy as environment variables, NAME=value, in
// both spellings that programs look for; none without a proxy. It may hold a
// password.
func (s *Site) ProxyEnv() []string {
	p := s.Config.Proxy
	if p == nil {
		return nil
	}
	var out []string
	for _, v := range []struct{ name, value string }{
		{"HTTP_PROXY", p.HTTPProxy}, {"HTTPS_PROXY", p.HTTPSProxy}, {"NO_PROXY", s.NoProxy()},
	} {
		if v.value != "" {
			out = append(out, v.name+"="+v.value, strings.ToLower(v.name)+"="+v.value)
		}
	}
	return out
}
