package payload

// CertificatesVariable tells Traefik the namespace with copies of the Secrets
// and ConfigMaps that Ingresses and Gateways name. A copy has the name
// NAMESPACE.NAME of its original.
const CertificatesVariable = "HOLDFAST_ROUTER_CERTIFICATES"

// certificatesOnly returns patches that make Traefik read one namespace, which
// holds only what it serves. Unpatched, it reads every Secret and ConfigMap of
// each namespace that it serves, and has no setting against that. It runs on
// workers, whose root could then read the accounts of the BMCs (docs/adr/0031).
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
		// ConfigMaps now come from the factory of Secrets, which is limited to that
		// namespace.
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
