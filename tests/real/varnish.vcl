# Filled in by proxies.py.
vcl 4.1;
backend model {
    .host = "127.0.0.1";
    .port = "@UPSTREAM@";
}
sub vcl_recv {
    return (pass);
}
sub vcl_backend_response {
    @RESPONSE@
}
