package manifests

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// followed describes Holdfast's treatment of each field of an
// IngressController's spec. The fields come from the kind's definition: a field
// that is missing here fails the test.
var followed = map[string]string{
	"clientTLS":                       "authorities of clients' certificates, from a ConfigMap in `openshift-config`, key `ca-bundle.pem`; `allowedSubjectPatterns` is refused",
	"closedClientConnectionPolicy":    "not followed",
	"defaultCertificate":              "a Secret in `openshift-ingress` with `tls.crt` and `tls.key`; until it is there and good the last good one is served",
	"domain":                          "what the routers are for; of the cluster's `ingresses.config.openshift.io` if empty. Settled at the first admission",
	"endpointPublishingStrategy":      "how routers are reached, see below; may be changed",
	"haproxyVersion":                  "not followed: the routers are no HAProxy",
	"httpCompression":                 "not followed",
	"httpEmptyRequestsPolicy":         "not followed",
	"httpErrorCodePages":              "not followed",
	"httpHeaders":                     "`forwardedHeaderPolicy`: `Append` trusts what clients say, `Replace` does not; `IfNone` acts as `Append` and `Never` as `Replace`, which `UnsupportedFields` says; the rest is not followed",
	"idleConnectionTerminationPolicy": "not followed",
	"logging":                         "`access`: requests are logged to the container's output; no syslog",
	"namespaceSelector":               "namespaces whose Ingresses and Gateways are served. A namespace that is added or removed replaces the routers",
	"nodePlacement":                   "hosts of the routers; `matchLabels` only. Control planes' taints are tolerated where the selector names them, whatever `tolerations` adds",
	"replicas":                        "number of routers; the table of defaults below if empty",
	"routeAdmission":                  "`namespaceOwnership` and `wildcardPolicy`: which namespace may ask for which host, see below",
	"routeSelector":                   "labels of the Ingresses that are served",
	"tlsSecurityProfile":              "protocol versions and ciphers, as far as Go's TLS has them",
	"tuningOptions":                   "`httpKeepAliveTimeout` and `headerBufferBytes`; the rest is not followed",
	"unsupportedConfigOverrides":      "`localWithFallback: false` takes an annotation off the Service",
}

const (
	docPath  = "../../../docs/API.md"
	docBegin = "<!-- fields of IngressController: made by TestTheDocumentOfTheAPIFollowsTheTypes -update -->\n"
	docEnd   = "<!-- end -->\n"
)

func TestTheDocumentOfTheAPIFollowsTheTypes(t *testing.T) {
	data, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(data), docBegin)
	have, after, ended := strings.Cut(rest, docEnd)
	if !begun || !ended {
		t.Fatalf("%s has no place for the fields", docPath)
	}
	want := fieldTable(t)
	if *update {
		if err := os.WriteFile(docPath, []byte(before+docBegin+want+docEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Errorf("%s does not follow the types: run this test with -update; want\n%s", docPath, want)
	}
}

func fieldTable(t *testing.T) string {
	t.Helper()
	data, err := definitions.ReadFile("crds/ingresscontrollers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	fields := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	var b strings.Builder
	b.WriteString("| field of `spec` | type | what Holdfast does |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if followed[name] == "" {
			t.Errorf("nothing is said about spec.%s", name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, fieldType(fields[name]), followed[name])
	}
	for name := range followed {
		if _, there := fields[name]; !there {
			t.Errorf("spec.%s is not in the type any more", name)
		}
	}
	return b.String()
}

// fieldType returns a field's type, or its allowed values.
func fieldType(p apiextensionsv1.JSONSchemaProps) string {
	if len(p.Enum) == 0 {
		return p.Type
	}
	var values []string
	for _, v := range p.Enum {
		values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
	}
	return strings.Join(values, ", ")
}
