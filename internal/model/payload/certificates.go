package payload

// CertificatesVariable tells Traefik in which namespace it finds copies of what
// Ingresses and Gateways name of Secrets and ConfigMaps, under the name
// NAMESPACE.NAME of what they are copies of.
const CertificatesVariable = "HOLDFAST_ROUTER_CERTIFICATES"

// certificatesOnly: Traefik reads every Secret and ConfigMap of each namespace
// that it serves, and it has no setting against that. It runs on workers, whose
// root would so read the accounts of the BMCs (docs/adr/0031). With these
// patches it reads one namespace, which holds what it serves and nothing else.
func certificatesOnly() []Patch {
	const (
		ingress = "pkg/provider/kubernetes/ingress/client.go"
		gateway = "pkg/provider/kubernetes/gateway/client.go"
		copies  = "os.Getenv(\"" + CertificatesVariable + "\")"
	)
	list := func(file, client string) Patch {
		const of = "factorySecret := kinformers.NewSharedInformerFactoryWithOptions("
		return Patch{
			File: file,
			Old:  of + client + ", resyncPeriod, kinformers.WithNamespace(ns),",
			New:  of + client + ", resyncPeriod, kinformers.WithNamespace(" + copies + "),",
		}
	}
	get := func(file, kind string) Patch {
		of := ".Core().V1()." + kind + "().Lister()." + kind
		return Patch{File: file, Old: of + "(namespace).Get(name)", New: of + "(" + copies + ").Get(namespace + \".\" + name)"}
	}
	return []Patch{
		list(ingress, "c.clientset"), get(ingress, "Secrets"),
		list(gateway, "c.csKube"), get(gateway, "Secrets"),
		// ConfigMaps come by the factory of Secrets, which keeps to that namespace.
		{
			File: gateway,
			Old:  "\t\t_, err = factoryKube.Core().V1().ConfigMaps().Informer().AddEventHandler(eventHandler)\n\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n",
			New:  "",
		},
		{
			File: gateway,
			Old:  "\t\t_, err = factorySecret.Core().V1().Secrets().Informer().AddEventHandler(eventHandler)\n",
			New: "\t\t_, err = factorySecret.Core().V1().ConfigMaps().Informer().AddEventHandler(eventHandler)\n" +
				"\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n" +
				"\t\t_, err = factorySecret.Core().V1().Secrets().Informer().AddEventHandler(eventHandler)\n",
		},
		{
			File: gateway,
			Old:  "c.factoriesKube[c.lookupNamespace(namespace)].Core().V1().ConfigMaps().Lister().ConfigMaps(namespace).Get(name)",
			New:  "c.factoriesSecret[c.lookupNamespace(namespace)].Core().V1().ConfigMaps().Lister().ConfigMaps(" + copies + ").Get(namespace + \".\" + name)",
		},
	}
}
