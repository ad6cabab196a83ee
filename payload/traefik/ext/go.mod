// Traefik's place for extensions, empty as upstream's is: the module proxy does
// not have it, since it is a folder of Traefik's repository. See ../../README.md.
module github.com/traefik/traefik/dynamic/ext

go 1.26.0
