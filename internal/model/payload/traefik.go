package payload

import "slices"

// traefikPatches returns the differences from Traefik: the corrections of three
// mistakes, and the removal of parts that a release cannot have or must not
// read.
func traefikPatches() []Patch {
	return slices.Concat([]Patch{lateWords, beforeTheFirst}, ownNames(), withoutDNSChallenges(), certificatesOnly())
}

// lateWords closes a connection on which nothing was sent before Traefik closed
// its ports, as clients that dial ahead have. Unpatched, Traefik hands it to
// nobody when something is sent later, and its client waits to the end of the
// grace time, an hour (docs/adr/0019). On a closed connection the client tries
// another router.
var lateWords = Patch{
	File: "pkg/server/server_entrypoint_tcp.go",
	Old:  "\th.connChan <- conn\n",
	New:  "\tselect {\n\tcase h.connChan <- conn:\n\tcase <-h.closeChan:\n\t\t_ = conn.Close()\n\t}\n",
}

// beforeTheFirst is the answer to all requests before the first configuration.
// Traefik opens its ports first, and unpatched it says 404 until then, of every
// host (docs/adr/0019). Nobody knows yet whether there is such a host: the
// client shall ask again.
var beforeTheFirst = Patch{
	File: "pkg/server/server_entrypoint_tcp.go",
	Old:  "\thttpSwitcher := middlewares.NewHandlerSwitcher(http.NotFoundHandler())\n",
	New: "\thttpSwitcher := middlewares.NewHandlerSwitcher(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {\n" +
		"\t\tw.Header().Set(\"Retry-After\", \"1\")\n" +
		"\t\thttp.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)\n" +
		"\t}))\n",
}

// ownNames keeps names apart. Traefik joins the parts of a name by hyphens,
// which the parts may have themselves: Service prod-api of namespace shop and
// Service api of namespace shop-prod got one name, and so the owner of one
// namespace answered for the other (docs/adr/0034). No name of the API has an
// underscore.
func ownNames() []Patch {
	const file = "pkg/provider/kubernetes/ingress/kubernetes.go"
	return []Patch{{
		File: file,
		Old:  `provider.Normalize(ingress.Namespace + "-" + pa.Backend.Service.Name + "-" + portString(pa.Backend.Service.Port))`,
		New:  `ingress.Namespace + "_" + pa.Backend.Service.Name + "_" + portString(pa.Backend.Service.Port)`,
	}, {
		File: file,
		Old:  `strings.TrimPrefix(provider.Normalize(ingress.Namespace+"-"+ingress.Name+"-"+rule.Host+pa.Path), "-")`,
		New:  `ingress.Namespace + "_" + ingress.Name + "_" + strings.Trim(provider.Normalize(rule.Host+pa.Path), "-")`,
	}, {
		File: file,
		Old:  `configKey := ingress.Namespace + "-" + t.SecretName`,
		New:  `configKey := ingress.Namespace + "_" + t.SecretName`,
	}}
}

// withoutDNSChallenges leaves out the clients of some hundred clouds' DNS, of
// which the module proxy lacks several. It also leaves out a field that exists
// only in a version of their module that the proxy lacks, too; before v3.7.13
// Traefik does not use it there (hack/older-release builds such a release).
// Routers never ask an ACME authority for certificates.
func withoutDNSChallenges() []Patch {
	const file = "pkg/provider/acme/provider.go"
	out := []Patch{
		{File: file, Old: "\t\"github.com/go-acme/lego/v5/providers/dns\"\n"},
		{
			File: file,
			Old:  "provider, err = dns.NewDNSChallengeProviderByName(p.DNSChallenge.Provider)",
			New:  `err = errors.New("DNS challenges are not in this build")`,
		},
	}
	if !slices.Contains([]string{"v3.7.11", "v3.7.12"}, TraefikVersion) {
		out = append(out, Patch{
			File: file,
			Old:  "PreferredChain:   p.PreferredChain,\n\t\t\tEnableCommonName: !p.DisableCommonName,\n",
			New:  "PreferredChain:   p.PreferredChain,\n",
		})
	}
	return out
}
