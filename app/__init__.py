"""The browser app: pages and widgets over the library; installed as `mwviz_app`."""
